//! Lists of strings as Python prints them, which data frames hold where a prompt has several turns.

/// The strings of `['one', "two's"]`, joined by blank lines; any other text unchanged.
pub(super) fn strings(text: &str) -> String {
    parse(text.trim()).map_or_else(|| text.to_owned(), |strings| strings.join("\n\n"))
}

fn parse(text: &str) -> Option<Vec<String>> {
    let mut rest = text.strip_prefix('[')?.strip_suffix(']')?.trim();
    let mut found = Vec::new();
    loop {
        let (string, after) = string(rest)?;
        found.push(string);
        rest = after.trim_start();
        if rest.is_empty() {
            return Some(found);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

/// A string literal at the start, and what follows it.
fn string(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| "'\"".contains(*c))?;
    let mut chars = text[1..].char_indices();
    let mut found = String::new();
    while let Some((place, c)) = chars.next() {
        match c {
            '\\' => found.push(escaped(&mut chars)?),
            c if c == quote => return Some((found, &text[1 + place + 1..])),
            c => found.push(c),
        }
    }
    None
}

fn escaped(chars: &mut std::str::CharIndices<'_>) -> Option<char> {
    let digits = match chars.next()?.1 {
        'n' => return Some('\n'),
        't' => return Some('\t'),
        'r' => return Some('\r'),
        c @ ('\\' | '\'' | '"') => return Some(c),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => return None,
    };
    let mut code = 0;
    for _ in 0..digits {
        code = code * 16 + chars.next()?.1.to_digit(16)?;
    }
    char::from_u32(code)
}

#[cfg(test)]
mod tests {
    use super::strings;

    #[test]
    fn lists_are_joined_and_other_texts_left_alone() {
        for (text, expected) in [
            (r#"['one\ntwo', "it's \x41\u00e9"]"#, "one\ntwo\n\nit's Aé"),
            (r#"["only"]"#, "only"),
            ("[1, 2]", "[1, 2]"),
            ("['open", "['open"),
            ("['a' 'b']", "['a' 'b']"),
            (r"['\q']", r"['\q']"),
            ("[]", "[]"),
            ("plain ['x']", "plain ['x']"),
        ] {
            assert_eq!(strings(text), expected);
        }
    }
}
