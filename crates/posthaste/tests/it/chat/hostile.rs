//! Text that nobody would write by hand.

use super::stage::Stage;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_text_arrives_as_it_is_and_is_tamed_where_a_person_reads_it() {
    let mut stage = Stage::set().await;
    let who = stage.starts(None).await;
    let hostile = "red\u{1b}[2J\u{202e}drow\u{7}\u{0}<script>alert(1)</script>'; DROP TABLE x;--";
    let seq = stage.sends(&who, hostile).await;
    let turn = stage.turn().await;
    turn.assert_saw(hostile);
    turn.say(hostile);
    stage.until_state(&who, seq, "answered").await;
    let texts: Vec<String> = stage.look(&who).await.entries.into_iter().map(|e| e.text).collect();
    assert_eq!(texts, [hostile, hostile], "text is data");
    stage.until_idle(&who).await;
    stage.world.say(&["stop", &who]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_megabyte_is_one_message_and_one_answer() {
    let mut stage = Stage::set().await;
    let who = stage.starts(None).await;
    let large = "ä".repeat(500_000);
    let seq = stage.sends(&who, &large).await;
    let turn = stage.turn().await;
    turn.say(&large);
    stage.until_state(&who, seq, "answered").await;
    let entries = stage.look(&who).await.entries;
    assert!(entries.iter().all(|entry| entry.text == large), "{} entries", entries.len());
    stage.until_idle(&who).await;
    stage.world.say(&["stop", &who]);
}
