//! Tags in their exact form: `<name ...>` and `</name>`, in small ASCII letters, nothing before the name.

/// A tag that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// Its name.
    pub name: &'static str,
    /// Whether it ends an element.
    pub closes: bool,
    /// What stands between its name and its end, as it was written.
    pub attributes: &'a str,
    /// Where it begins in the text.
    pub start: usize,
    /// Where what follows it begins.
    pub end: usize,
    /// Whether it has an end. One that has none goes on to the end of the text.
    pub whole: bool,
}

/// The first tag of these names at or after a place of the text.
pub(super) fn next<'a>(text: &'a str, from: usize, names: &[&'static str]) -> Option<Tag<'a>> {
    text[from..].match_indices('<').find_map(|(at, _)| tag_at(text, from + at, names))
}

fn tag_at<'a>(text: &'a str, start: usize, names: &[&'static str]) -> Option<Tag<'a>> {
    let after = &text[start + 1..];
    let (closes, after) = after.strip_prefix('/').map_or((false, after), |after| (true, after));
    let named = |name: &&&'static str| after.strip_prefix(**name).is_some_and(|rest| !rest.starts_with(goes_on));
    let name = names.iter().find(named)?;
    let attributes = &after[name.len()..];
    let begins = text.len() - attributes.len();
    let (whole, length) = end_of(attributes).map_or((false, attributes.len()), |length| (true, length));
    let end = begins + length + usize::from(whole);
    Some(Tag { name, closes, attributes: &attributes[..length], start, end, whole })
}

/// Whether a name that goes on with this character is another name.
fn goes_on(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// Where a tag's `>` stands. One in quotes is none, and a tag does not reach over the next one.
fn end_of(attributes: &str) -> Option<usize> {
    let mut quoted = false;
    for (at, c) in attributes.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '>' if !quoted => return Some(at),
            '<' if !quoted => return None,
            _ => {}
        }
    }
    None
}

/// What is not one element after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// Text that stands in no element, at its place among the elements.
    Stray,
    /// An element of this name that does not begin, does not end, or has another one within.
    Element(&'static str),
}

/// One element: `<name attributes>content</name>`, with no tag in its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element<'a> {
    /// Its name.
    pub name: &'static str,
    /// What stands in its tag beside the name.
    pub attributes: &'a str,
    /// What stands in it.
    pub content: &'a str,
}

/// Reads a text as elements one after the other. What stands between them is given to `between`.
pub(super) fn elements<'a>(
    text: &'a str,
    names: &[&'static str],
    between: impl Fn(&str) -> Result<(), Broken>,
) -> Result<Vec<Element<'a>>, Broken> {
    let (mut elements, mut from) = (vec![], 0);
    while let Some(tag) = next(text, from, names) {
        between(&text[from..tag.start])?;
        let broken = Broken::Element(tag.name);
        if tag.closes || !tag.whole {
            return Err(broken);
        }
        let close = next(text, tag.end, names).ok_or(broken)?;
        if !close.closes || close.name != tag.name || !close.whole || !close.attributes.trim().is_empty() {
            return Err(broken);
        }
        elements.push(Element { name: tag.name, attributes: tag.attributes, content: &text[tag.end..close.start] });
        from = close.end;
    }
    between(&text[from..])?;
    Ok(elements)
}
