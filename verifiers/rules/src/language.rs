//! Is an answer in the natural language that was asked for?
//!
//! Detection by trigrams and script is the crate `whatlang`'s. It is only sure of a paragraph or so, hence everything
//! here leans to silence: a short answer, code, numbers, a language it does not know or one of close relatives give no
//! signal at all. What can go wrong: a prompt that wants another language without saying so in words listed here.

use reading::fence;
use serde_json::Value;
use verdict::Object;
use whatlang::Lang;

/// Letters that detection needs. A character of Chinese, Japanese or Korean counts for three.
const LETTERS_MIN: usize = 80;
/// Characters looked at.
const CHARS_READ: usize = 4_000;
const CONFIDENCE_MIN: f64 = 0.9;

/// Languages that trigrams confuse: told apart, they prove nothing.
const RELATIVES: &[&[Lang]] = &[
    &[Lang::Nob, Lang::Dan, Lang::Swe],
    &[Lang::Spa, Lang::Por, Lang::Cat, Lang::Ita],
    &[Lang::Hrv, Lang::Srp, Lang::Slv, Lang::Mkd, Lang::Bul],
    &[Lang::Rus, Lang::Ukr, Lang::Bel, Lang::Bul],
    &[Lang::Ces, Lang::Slk],
    &[Lang::Hin, Lang::Mar, Lang::Nep],
    &[Lang::Nld, Lang::Afr],
    &[Lang::Tur, Lang::Aze, Lang::Tuk, Lang::Uzb],
    &[Lang::Ind, Lang::Jav],
    &[Lang::Ara, Lang::Pes, Lang::Urd],
    &[Lang::Heb, Lang::Yid],
    &[Lang::Zul, Lang::Sna],
    &[Lang::Fin, Lang::Est],
];

/// ISO 639-1 codes, and names other than whatlang's.
const NAMES: &[(&str, Lang)] = &[
    ("en", Lang::Eng),
    ("ru", Lang::Rus),
    ("zh", Lang::Cmn),
    ("zho", Lang::Cmn),
    ("chinese", Lang::Cmn),
    ("es", Lang::Spa),
    ("pt", Lang::Por),
    ("it", Lang::Ita),
    ("bn", Lang::Ben),
    ("fr", Lang::Fra),
    ("de", Lang::Deu),
    ("uk", Lang::Ukr),
    ("ka", Lang::Kat),
    ("ar", Lang::Ara),
    ("hi", Lang::Hin),
    ("ja", Lang::Jpn),
    ("he", Lang::Heb),
    ("yi", Lang::Yid),
    ("pl", Lang::Pol),
    ("am", Lang::Amh),
    ("jv", Lang::Jav),
    ("ko", Lang::Kor),
    ("nb", Lang::Nob),
    ("no", Lang::Nob),
    ("nor", Lang::Nob),
    ("norwegian", Lang::Nob),
    ("da", Lang::Dan),
    ("sv", Lang::Swe),
    ("fi", Lang::Fin),
    ("tr", Lang::Tur),
    ("nl", Lang::Nld),
    ("hu", Lang::Hun),
    ("cs", Lang::Ces),
    ("el", Lang::Ell),
    ("bg", Lang::Bul),
    ("be", Lang::Bel),
    ("mr", Lang::Mar),
    ("kn", Lang::Kan),
    ("ro", Lang::Ron),
    ("sl", Lang::Slv),
    ("slovenian", Lang::Slv),
    ("hr", Lang::Hrv),
    ("sr", Lang::Srp),
    ("mk", Lang::Mkd),
    ("lt", Lang::Lit),
    ("lv", Lang::Lav),
    ("et", Lang::Est),
    ("ta", Lang::Tam),
    ("vi", Lang::Vie),
    ("ur", Lang::Urd),
    ("th", Lang::Tha),
    ("gu", Lang::Guj),
    ("uz", Lang::Uzb),
    ("pa", Lang::Pan),
    ("az", Lang::Aze),
    ("id", Lang::Ind),
    ("te", Lang::Tel),
    ("fa", Lang::Pes),
    ("fas", Lang::Pes),
    ("farsi", Lang::Pes),
    ("ml", Lang::Mal),
    ("or", Lang::Ori),
    ("my", Lang::Mya),
    ("ne", Lang::Nep),
    ("si", Lang::Sin),
    ("sinhala", Lang::Sin),
    ("km", Lang::Khm),
    ("tk", Lang::Tuk),
    ("ak", Lang::Aka),
    ("zu", Lang::Zul),
    ("sn", Lang::Sna),
    ("af", Lang::Afr),
    ("la", Lang::Lat),
    ("sk", Lang::Slk),
    ("ca", Lang::Cat),
    ("tl", Lang::Tgl),
    ("hy", Lang::Hye),
    ("eo", Lang::Epo),
];

pub struct Found {
    /// 0 or 1.
    pub score: f64,
    pub detail: String,
}

/// `None` when either language cannot be told.
///
/// # Errors
/// When `metadata.answer_language` is not a string.
pub fn check(metadata: &Object, prompt: &str, response: &str) -> Result<Option<Found>, String> {
    let asked = match metadata.get("answer_language") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name),
        Some(_) => return Err("answer_language is not a string".to_owned()),
    };
    // First, since most answers are too short to tell.
    let Some(got) = detect(response) else { return Ok(None) };
    // A language that cannot be told apart is no mistake of the task's.
    let wanted = asked.map_or_else(|| of_prompt(prompt), |name| named(name));
    let Some(wanted) = wanted else { return Ok(None) };
    if got == wanted {
        return Ok(Some(Found { score: 1.0, detail: got.eng_name().to_owned() }));
    }
    let related = RELATIVES.iter().any(|group| group.contains(&got) && group.contains(&wanted));
    let detail = format!("{} in place of {}", got.eng_name(), wanted.eng_name());
    Ok((!related).then_some(Found { score: 0.0, detail }))
}

/// ISO 639-1, ISO 639-3 or the English name, in any case.
fn named(name: &str) -> Option<Lang> {
    let name = name.trim().to_lowercase();
    // "pt-BR" is Portuguese.
    let code = name.split(['-', '_']).next().unwrap_or("");
    let by_table = |wanted: &str| NAMES.iter().find(|(known, _)| *known == wanted).map(|(_, lang)| *lang);
    let by_name = || Lang::all().iter().copied().find(|lang| lang.eng_name().to_lowercase() == name);
    Lang::from_code(code).or_else(|| by_table(code)).or_else(by_name)
}

/// The prompt's own language, unless it may want another.
fn of_prompt(prompt: &str) -> Option<Lang> {
    const STEMS: &[&str] = &[
        "translat",
        "language",
        "übersetz",
        "sprache",
        "tradu",
        "langue",
        "idioma",
        "lingua",
        "перев",
        "язык",
        "翻译",
        "翻譯",
        "翻訳",
        "번역",
        "vertaal",
        "oversæt",
        "översätt",
        "przetłumacz",
    ];
    let found = detect(prompt)?;
    let lower: String = prompt.chars().take(CHARS_READ).flat_map(char::to_lowercase).collect();
    let own: Vec<String> = Lang::all().iter().map(|lang| lang.name().to_lowercase()).collect();
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    let names_one = words.any(|word| {
        matches!(word, "chinese" | "norwegian" | "farsi")
            || Lang::all().iter().any(|lang| lang.eng_name().eq_ignore_ascii_case(word))
            || own.iter().any(|name| name == word)
    });
    (!names_one && !STEMS.iter().any(|stem| lower.contains(stem))).then_some(found)
}

/// The language of a text's prose, when there is enough and detection is sure.
fn detect(text: &str) -> Option<Lang> {
    let prose = prose(text);
    let (mut letters, mut visible) = (0_usize, 0_usize);
    for c in prose.chars().filter(|c| !c.is_whitespace()) {
        visible += 1;
        letters += usize::from(c.is_alphabetic()) * if c >= '\u{2e80}' { 3 } else { 1 };
    }
    // Tables, formulas and code without a fence are mostly signs.
    if letters < LETTERS_MIN || letters * 4 < visible * 3 {
        return None;
    }
    let info = whatlang::detect(&prose)?;
    (info.is_reliable() && info.confidence() >= CONFIDENCE_MIN).then_some(info.lang())
}

/// Lines outside of fences, without code spans and addresses.
fn prose(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(16 * CHARS_READ)];
    let fenced = fence::blocks(text).kept;
    let mut out = String::new();
    // A fence's body is taken out where it stands; its marks are no letters, and stay.
    let mut rest = text;
    for block in &fenced {
        if let Some(at) = rest.find(block.code.as_str()) {
            out.push_str(&rest[..at]);
            rest = &rest[at + block.code.len()..];
        }
    }
    out.push_str(rest);
    let spans: Vec<&str> = out.split('`').step_by(2).collect();
    let words = spans.join(" ");
    let kept = words.split_whitespace().filter(|word| !word.contains("://")).collect::<Vec<_>>().join(" ");
    kept.chars().take(CHARS_READ).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGLISH: &str = "The river rises in the hills to the north of the town, and it runs for about forty miles \
                           through farms and woods before it meets the sea near the old harbour.";
    const GERMAN: &str = "Der Fluss entspringt in den Hügeln nördlich der Stadt und fließt etwa vierzig Meilen durch \
                          Felder und Wälder, bevor er in der Nähe des alten Hafens das Meer erreicht.";
    const SPANISH: &str = "El río nace en las colinas al norte de la ciudad y recorre unas cuarenta millas entre \
                           campos y bosques antes de llegar al mar cerca del viejo puerto.";
    const JAPANESE: &str = "川は町の北の丘に源を発し、畑や森の中を約四十マイル流れて、古い港の近くで海に注ぎます。";

    fn score(metadata: &str, prompt: &str, response: &str) -> Option<f64> {
        let metadata = serde_json::from_str(metadata).unwrap();
        check(&metadata, prompt, response).unwrap().map(|found| found.score)
    }

    #[test]
    fn each_name_of_a_language_is_known() {
        for name in ["de", "DEU", "German", "de-AT"] {
            let metadata = format!(r#"{{"answer_language":"{name}"}}"#);
            assert_eq!(score(&metadata, "", GERMAN), Some(1.0), "{name}");
            assert_eq!(score(&metadata, "", ENGLISH), Some(0.0), "{name}");
        }
        assert_eq!(score(r#"{"answer_language":"ja"}"#, "", JAPANESE), Some(1.0));
        assert_eq!(score(r#"{"answer_language":"klingon"}"#, "", ENGLISH), None);
    }

    #[test]
    fn a_prompt_speaks_for_itself_unless_it_wants_another() {
        assert_eq!(score("{}", ENGLISH, ENGLISH), Some(1.0));
        assert_eq!(score("{}", GERMAN, ENGLISH), Some(0.0));
        assert_eq!(score("{}", &format!("Translate: {ENGLISH}"), GERMAN), None);
        assert_eq!(score("{}", &format!("{ENGLISH} Answer in German."), GERMAN), None);
        assert_eq!(score("{}", "Say it.", GERMAN), None);
    }

    #[test]
    fn short_texts_code_and_relatives_say_nothing() {
        let german = r#"{"answer_language":"de"}"#;
        let code = format!("```python\n{}```", "the_river = rises(in_the, hills) # of the town\n".repeat(20));
        for response in ["", "42", "Yes, it does.", &code, &"x = [1, 2, 3]; y = f(x);\n".repeat(40), "\0\u{1}"] {
            assert_eq!(score(german, "", response), None, "{response}");
        }
        assert_eq!(score(r#"{"answer_language":"pt"}"#, "", SPANISH), None);
        assert_eq!(score(r#"{"answer_language":"fr"}"#, "", SPANISH), Some(0.0));
    }
}
