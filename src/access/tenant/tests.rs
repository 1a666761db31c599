use super::*;

const NOW: i64 = 1_704_110_400_000;

fn acme() -> TenantId {
    TenantId::new("acme").unwrap()
}

fn tenants(settings: TenantSettings) -> Tenants {
    Tenants::new(BTreeMap::from([(acme(), settings)]), &Spending::default())
}

#[test]
fn two_hundred_tasks_at_once_spend_a_budget_of_ten_and_no_more() {
    let tenants = tenants(TenantSettings { usd_per_day: Some(1.0), ..TenantSettings::default() });
    let ran: usize = std::thread::scope(|scope| {
        let task = || match tenants.reserve(Some(&acme()), 0.1, NOW) {
            Ok(hold) => {
                std::thread::yield_now();
                hold.settle(nano_usd(0.1), NOW);
                1
            }
            Err(AccessError::Budget { .. }) => 0,
            Err(other) => panic!("{other}"),
        };
        let tasks: Vec<_> = (0..200).map(|_| scope.spawn(task)).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).sum()
    });
    let report = &tenants.report(NOW)[0];
    assert_eq!((ran, report.spent_today_usd, report.held_usd), (10, 1.0, 0.0));
}

#[test]
fn what_ends_without_cost_gives_its_dollars_back() {
    let tenants = tenants(TenantSettings { usd_per_month: Some(1.0), ..TenantSettings::default() });
    let hold = tenants.reserve(Some(&acme()), 1.0, NOW).unwrap();
    assert!(tenants.reserve(Some(&acme()), 0.1, NOW).is_err());
    drop(hold);
    tenants.reserve(Some(&acme()), 1.0, NOW).unwrap().park(DecisionId::from(1), NOW + 10);
    assert!(tenants.reserve(Some(&acme()), 0.1, NOW + 9).is_err());
    tenants.release_parked(Some(&acme()), DecisionId::from(1));
    tenants.reserve(Some(&acme()), 1.0, NOW).unwrap().park(DecisionId::from(2), NOW + 10);
    tenants.settle_parked(&acme(), DecisionId::from(2), nano_usd(0.25), NOW);
    let report = &tenants.report(NOW)[0];
    assert_eq!((report.spent_this_month_usd, report.held_usd), (0.25, 0.0));
}

#[tokio::test]
async fn a_task_without_a_free_place_is_refused_or_waits() {
    let tenants = tenants(TenantSettings { concurrency: Some(1), ..TenantSettings::default() });
    let first = tenants.admit(Some(&acme())).unwrap();
    assert!(matches!(tenants.admit(Some(&acme())), Err(AccessError::TooMany { limit: 1, .. })));
    assert!(tenants.admit(None).is_ok() && tenants.admit(Some(&TenantId::new("other").unwrap())).is_ok());
    let acme = acme();
    let mut second = Box::pin(tenants.admit_in_turn(Some(&acme)));
    assert!(futures::poll!(&mut second).is_pending());
    drop(first);
    let _second = second.await;
}

#[test]
fn the_rate_counts_tasks_that_find_a_place() {
    let settings = TenantSettings { requests_per_minute: Some(2), concurrency: Some(1), ..TenantSettings::default() };
    let tenants = tenants(settings);
    let first = tenants.admit(Some(&acme())).unwrap();
    assert!(matches!(tenants.admit(Some(&acme())), Err(AccessError::TooMany { .. })));
    drop(first);
    drop(tenants.admit(Some(&acme())).unwrap());
    assert!(matches!(tenants.admit(Some(&acme())), Err(AccessError::TooFast { limit: 2, .. })));
    assert_eq!(tenants.rate(&acme()).map(|rate| (rate.limit, rate.remaining)), Some((2, 0)));
}

#[test]
fn a_tenant_uses_only_its_domains_and_arms() {
    let (math, arm) = (Domain::new("math").unwrap(), ArmId::new("small").unwrap());
    let settings = TenantSettings {
        domains: Some(BTreeSet::from([math.clone()])),
        arms: Some(BTreeSet::from([arm.clone()])),
        ..TenantSettings::default()
    };
    assert!(settings.check_domain(&acme(), &math).is_ok());
    assert!(settings.check_domain(&acme(), &Domain::unknown()).is_err());
    assert!(settings.check_arms(&acme(), None).is_ok() && settings.check_arms(&acme(), Some(&[arm])).is_ok());
    let refused = settings.check_arms(&acme(), Some(&[ArmId::new("large").unwrap()])).unwrap_err();
    assert!(refused.to_string().ends_with("its arms are: small"), "{refused}");
}
