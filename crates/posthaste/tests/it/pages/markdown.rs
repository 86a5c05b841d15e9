//! The blocks of a page.

const FENCE: &str = "```";

/// What a reader does with a block.
pub(super) enum Part {
    Run(String),
    Skipped(String),
    File(String),
    Prints,
}

pub(super) struct Block {
    /// Where it begins.
    pub(super) line: usize,
    pub(super) part: Part,
    pub(super) text: String,
}

/// Every block that a reader does something with.
pub(super) fn blocks(page: &str) -> Vec<Block> {
    let (mut blocks, mut said) = (Vec::new(), "");
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(language) = line.strip_prefix(FENCE) else {
            if !line.trim().is_empty() {
                said = line;
            }
            continue;
        };
        let text: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| !line.starts_with(FENCE))
            .collect();
        let text = text.join("\n") + "\n";
        if let Some(part) = part(comment(said), language.trim(), &text) {
            blocks.push(Block { line: at + 1, part, text });
        }
        said = "";
    }
    blocks
}

fn comment(line: &str) -> &str {
    let inner = line.trim().strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
    inner.unwrap_or_default().trim()
}

fn part(comment: &str, language: &str, text: &str) -> Option<Part> {
    let (word, rest) = comment.split_once(':').unwrap_or((comment, ""));
    let rest = rest.trim().to_owned();
    match word {
        "not run" => Some(Part::Skipped(rest)),
        "run as" => Some(Part::Run(rest)),
        "file" => Some(Part::File(rest)),
        "prints" => Some(Part::Prints),
        _ => (language == "sh").then(|| Part::Run(text.to_owned())),
    }
}
