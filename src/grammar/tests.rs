use proptest::prelude::*;

use super::*;

fn write(tokens: &[Token]) -> Result<Writing, Violation> {
    let mut writing = Writing::new(3, Rules::default());
    for token in tokens {
        writing.push(*token)?;
    }
    Ok(writing)
}

const SINGLE: Token = Token::Mode(Mode::Single);
const MULTI: Token = Token::Mode(Mode::Multi);
const AGENTIC: Token = Token::Mode(Mode::Agentic);
const EXECUTOR: Token = Token::Role(Role::Executor);
const VERIFIER: Token = Token::Role(Role::Verifier);
const SUMMARIZER: Token = Token::Role(Role::Summarizer);
use Token::{Answer as Say, Call, EndLayer, Ref};

#[test]
fn trajectories_of_every_mode_are_taken_whole() {
    assert!(write(&[SINGLE, Call(2), Say(0)]).unwrap().episode().answer().is_some());
    assert!(write(&[MULTI, Call(0), Call(1), Call(0), Call(0), Say(1)]).unwrap().episode().answer().is_some());
    let team = [
        AGENTIC,
        Call(0),
        Token::Role(Role::Planner),
        Call(1),
        EXECUTOR,
        EndLayer, // n1, n2
        Call(2),
        EXECUTOR,
        Ref(0),
        EndLayer, // n3
        Call(0),
        VERIFIER,
        Ref(1),
        Ref(2),
        EndLayer, // n4
        Call(1),
        SUMMARIZER,
        Ref(1),
        Ref(2),
        Ref(3),
        EndLayer,
        Say(4),
    ];
    let written = write(&team).unwrap();
    assert_eq!(written.episode().answer(), Some(&Answer::Node(4)));
    assert_eq!(written.episode().nodes().iter().map(|node| node.layer).collect::<Vec<_>>(), [0, 0, 1, 2, 3]);
    assert!(written.allowed().is_empty());
}

#[test]
fn each_way_to_go_wrong_has_its_code() {
    let two = [AGENTIC, Call(0), EXECUTOR, Call(1), EXECUTOR, EndLayer];
    let after = |more: &[Token]| write(&[&two[..], more].concat()).unwrap_err();
    let seven = [[Call(0), EXECUTOR, EndLayer]; 7].concat();
    let of = |tokens: &[Token]| write(tokens).unwrap_err();
    let cases = [
        (of(&[Call(0)]), Violation::ModeMissing),
        (of(&[SINGLE, MULTI]), Violation::ModeDuplicate),
        (of(&[SINGLE, Say(0)]), Violation::AnswerPremature),
        (of(&[MULTI, Call(0), Say(0)]), Violation::AnswerPremature),
        (after(&[Say(1)]), Violation::AnswerPremature),
        (of(&[AGENTIC, EndLayer]), Violation::RouteMissing),
        (of(&[AGENTIC, EXECUTOR]), Violation::RouteMalformed),
        (of(&[SINGLE, Call(0), Call(1)]), Violation::CallLimit),
        (of(&[MULTI, Call(0), Call(0), Call(0), Call(0), Call(0)]), Violation::CallLimit),
        (of(&[SINGLE, EXECUTOR]), Violation::AttributeUnknown),
        (of(&[AGENTIC, Call(0), EXECUTOR, EXECUTOR]), Violation::AttributeDuplicate),
        (of(&[SINGLE, Call(3)]), Violation::WorkerNotOffered),
        (of(&[AGENTIC, Call(0), EndLayer]), Violation::RoleMissing),
        (of(&[AGENTIC, Call(0), EXECUTOR, Ref(4), EndLayer]), Violation::RefUnknown),
        (of(&[AGENTIC, Call(0), EXECUTOR, Ref(0), EndLayer]), Violation::RefSameLayer),
        (after(&[Call(0), EXECUTOR, Ref(1), Ref(1), EndLayer]), Violation::RefDuplicate),
        (after(&[Call(0), VERIFIER, EndLayer]), Violation::VerifierWithoutRefs),
        (after(&[Call(0), SUMMARIZER, EndLayer]), Violation::SummarizerWithoutRefs),
        (after(&[Call(0), SUMMARIZER, Ref(0), Call(1), EXECUTOR, EndLayer]), Violation::SummarizerNotAlone),
        (of(&[AGENTIC, Call(0), EXECUTOR, Call(0), EXECUTOR, EndLayer]), Violation::DuplicateInLayer),
        (
            of(&[&[AGENTIC], &seven[..18], &[Call(0), EXECUTOR, Call(1), EXECUTOR, EndLayer]].concat()),
            Violation::LayerOverBudget,
        ),
        (of(&[&[AGENTIC], &seven[..], &[Call(0), EXECUTOR, EndLayer]].concat()), Violation::MustSummarizeNow),
        (of(&[SINGLE, Call(0), Say(0), Say(0)]), Violation::AlreadyFinished),
        (of(&[MULTI, EndLayer]), Violation::ActionMalformed),
        (of(&[MULTI, Call(0), Call(0), Say(2)]), Violation::RefUnknown),
    ];
    for (found, wanted) in cases {
        assert_eq!(found, wanted);
    }
    let codes: std::collections::BTreeSet<_> = Violation::ALL.iter().map(|violation| violation.code()).collect();
    assert_eq!(codes.len(), Violation::ALL.len());
}

#[test]
fn a_layer_is_taken_or_refused_whole() {
    let mut episode = Episode::new(2, Rules::default());
    episode.take(&Turn::Mode(Mode::Agentic)).unwrap();
    let call = |worker, role| Request { worker, role: Some(role), refs: vec![], task: String::new() };
    let before = episode.clone();
    let layer = vec![call(0, Role::Executor), call(1, Role::Verifier)];
    assert_eq!(episode.take(&Turn::Calls(layer)), Err(Violation::VerifierWithoutRefs));
    assert_eq!(episode, before);
    let layer = vec![call(0, Role::Executor), call(1, Role::Executor)];
    assert_eq!(episode.take(&Turn::Calls(layer)), Ok(0..2));
}

proptest! {
    #[test]
    fn the_mask_never_leads_astray(
        workers in 1_usize..6, turns_max in 3_usize..12, picks in prop::collection::vec(any::<prop::sample::Index>(), 64),
    ) {
        let rules = Rules { turns_max, ..Rules::default() };
        let mut writing = Writing::new(workers, rules);
        for pick in picks {
            let allowed = writing.allowed();
            if allowed.is_empty() {
                break;
            }
            let token = allowed[pick.index(allowed.len())];
            prop_assert!(writing.push(token).is_ok(), "{token:?} was allowed after {writing:?}");
        }
        prop_assert!(writing.episode().answer().is_some(), "{writing:?} does not end");
    }

    #[test]
    fn what_the_mask_refuses_ends_in_a_violation_or_nowhere(
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 40),
    ) {
        // Follow the mask for a while, then take any token: a token that was not allowed must not lead to an answer.
        let mut writing = Writing::new(3, Rules::default());
        for (within, any) in picks {
            let allowed = writing.allowed();
            if allowed.is_empty() {
                break;
            }
            let tokens: Vec<_> = writing.tokens().collect();
            let stray = tokens[any.index(tokens.len())];
            let mut strayed = writing.clone();
            if strayed.push(stray).is_ok() && !writing.allows(stray) {
                prop_assert!(strayed.episode().answer().is_none());
            }
            writing.push(allowed[within.index(allowed.len())]).unwrap();
        }
    }
}
