use super::*;

fn told_of(end: TreeEnd, overdue: Option<u64>) -> Result<String, String> {
    let output = ("some output".to_owned(), String::new());
    told((end, output.0, output.1), overdue.map(Duration::from_secs))
}

#[tokio::test]
async fn a_flood_of_output_is_read_to_its_end_and_kept_at_its_beginning() {
    let flood = vec![b'x'; 1 << 20];
    let text = bounded(Some(&flood[..]), 100).await;
    let (kept, note) = text.split_once('\n').expect("a note");
    assert_eq!((kept.len(), note), (100, "[1048476 more bytes were dropped]"));
    assert_eq!(bounded(Some(&b"\xffall of it"[..]), 100).await, "\u{fffd}all of it");
    assert_eq!(bounded(None::<&[u8]>, 100).await, "");
}

#[test]
fn the_model_is_told_how_a_command_ended_and_what_it_said() {
    let code = |code| TreeEnd { code: Some(code), ..TreeEnd::default() };
    assert_eq!(told_of(code(0), None), Ok("exit code 0\n[stdout]\nsome output".to_owned()));
    let failed = told_of(code(3), None).expect_err("it failed");
    assert!(failed.starts_with("exit code 3\n") && failed.ends_with("some output"), "{failed}");
    let killed = TreeEnd { signal: Some(9), ..TreeEnd::default() };
    assert!(told_of(killed, None).expect_err("killed").starts_with("ended by signal 9"));
    let left = told_of(TreeEnd { left: 1, ..code(0) }, None).expect("it ended well");
    assert!(left.contains("left 1 process running in the background"), "{left}");
    let left = told_of(TreeEnd { left: 2, ..code(0) }, None).expect("it ended well");
    assert!(left.contains("left 2 processes"), "{left}");
    let late = told_of(TreeEnd { left: 2, ..code(0) }, Some(5)).expect_err("too late");
    assert!(late.starts_with("the command took longer than 5s") && !late.contains("left"));
    assert!(late.ends_with("some output"), "{late}");
    let missing = TreeEnd { error: Some("cannot run /bin/sh".into()), ..TreeEnd::default() };
    assert_eq!(told_of(missing, None), Err("cannot run /bin/sh".to_owned()));
    assert!(told_of(TreeEnd::default(), None).expect_err("lost").contains("nobody knows"));
}
