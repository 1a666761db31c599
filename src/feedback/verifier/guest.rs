//! What a guest finds outside itself: a WASI that denies, bounds, and, for those that run code, the way to a second
//! instance of themselves.
//!
//! The answer's code runs in that second instance and only there. It shares no memory with the tests, so it can neither
//! see nor change them; values cross as text. It has less fuel and less time than the tests, so that they can still
//! say what happened when it overruns.

use std::{sync::LazyLock, time::Duration};

use rand::RngCore;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use tokio::time::Instant;
use wasmtime::{
    Engine, ResourceLimiter, Store, Trap,
    component::{Linker, ResourceTable},
};
use wasmtime_wasi::{
    HostMonotonicClock, HostWallClock, I32Exit, WasiCtx, WasiCtxView, WasiView, random::Deterministic,
};

use super::contract::running::{ExecVerifier, ExecVerifierPre, pointsman::verifier::sandbox};

/// Elements that a table may have; CPython's has about 10,000.
pub(super) const TABLE_ELEMENTS_MAX: usize = 50_000;
/// Fuel between two turns of a guest: about a third of a millisecond.
const TURN_FUEL: u64 = 1_000_000;
/// Random bytes that one call may ask for.
const RANDOM_BYTES_MAX: u64 = 1 << 20;
/// The time that guests see, in seconds since 1970: always the same, so that a verdict can be repeated.
const FIXED_TIME: Duration = Duration::from_secs(1_767_225_600);
/// The bytes that guests take for random, over and over.
static RANDOM: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = vec![0; 4_096];
    ChaCha8Rng::seed_from_u64(0).fill_bytes(&mut bytes);
    bytes
});

/// What one instance may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    pub fuel: u64,
    pub deadline: Instant,
    pub memory_bytes: usize,
}

/// An instance's surroundings.
pub(super) struct Guest {
    memory_bytes_max: usize,
    /// Whether it asked for more memory than it may have.
    pub memory_refused: bool,
    // Made when first asked for: most components import no WASI, and it costs as much as their verdict.
    wasi: Option<WasiCtx>,
    table: ResourceTable,
    /// The second instance of those that run code.
    pub second: Option<Second>,
}

/// The second instance, which runs the answer's code.
pub(super) struct Second {
    pre: ExecVerifierPre<Guest>,
    left: Allowance,
    /// Fuel that all second instances have spent.
    pub fuel: u64,
    live: Option<Box<(Store<Guest>, ExecVerifier)>>,
    /// Whether one was there and is gone.
    lost: bool,
}

impl Second {
    pub fn new(pre: ExecVerifierPre<Guest>, left: Allowance) -> Self {
        Self { pre, left, fuel: 0, live: None, lost: false }
    }

    /// Notes what an instance has used up; on an error the instance is gone and the guest is told why.
    fn settle<T>(
        &mut self,
        live: Box<(Store<Guest>, ExecVerifier)>,
        given: u64,
        ended: Result<wasmtime::Result<Result<T, String>>, tokio::time::error::Elapsed>,
    ) -> Result<T, String> {
        let spent = given.saturating_sub(live.0.get_fuel().unwrap_or(0));
        self.fuel += spent;
        self.left.fuel = self.left.fuel.saturating_sub(spent);
        match ended {
            Ok(Ok(answered)) => {
                self.live = Some(live);
                answered
            }
            Ok(Err(trap)) => {
                self.lost = true;
                Err(match limit(&trap, live.0.data().memory_refused) {
                    Some(why) => format!("limit: {why}"),
                    None => format!("trapped: {}", reason(&trap)),
                })
            }
            Err(_) => {
                self.lost = true;
                Err(format!("limit: {OUT_OF_TIME}"))
            }
        }
    }
}

/// What is said of those that the deadline ended.
pub(super) const OUT_OF_TIME: &str = "it ran out of time";

/// The limit that ended a call, if it was one.
pub(super) fn limit(trap: &wasmtime::Error, memory_refused: bool) -> Option<&'static str> {
    match trap.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => Some("it ran out of fuel"),
        Some(Trap::StackOverflow) => Some("it ran out of stack"),
        _ if memory_refused => Some("it ran out of memory"),
        _ => None,
    }
}

/// Why a call ended that no limit ended.
pub(super) fn reason(trap: &wasmtime::Error) -> String {
    match trap.downcast_ref::<I32Exit>() {
        Some(I32Exit(status)) => format!("it called exit({status})"),
        None => trap.root_cause().to_string(),
    }
}

/// A store with its bounds set.
pub(super) fn store(engine: &Engine, allowance: Allowance, second: Option<Second>) -> wasmtime::Result<Store<Guest>> {
    let guest = Guest {
        memory_bytes_max: allowance.memory_bytes,
        memory_refused: false,
        wasi: None,
        table: ResourceTable::new(),
        second,
    };
    let mut store = Store::new(engine, guest);
    store.limiter(|guest| guest);
    store.set_fuel(allowance.fuel)?;
    // Gives way every so often, so that a busy guest does not keep others from their turn, nor its deadline from ending it.
    store.fuel_async_yield_interval(Some(TURN_FUEL))?;
    Ok(store)
}

/// Links all that guests may import.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    sandbox::add_to_linker::<Guest, wasmtime::component::HasSelf<Guest>>(&mut linker, |guest| guest)?;
    Ok(linker)
}

impl sandbox::Host for Guest {
    async fn load(&mut self, code: String) -> Result<String, String> {
        let Some(second) = &mut self.second else { return Err("limit: code cannot load code".into()) };
        second.live = None;
        let given = second.left.fuel;
        let failed = |error: wasmtime::Error| format!("trapped: {}", reason(&error));
        let mut store = store(second.pre.engine(), second.left, None).map_err(failed)?;
        let pre = second.pre.clone();
        let deadline = second.left.deadline;
        // The store must outlive the call for its fuel to be read, whichever way the call ends.
        let mut instance = None;
        let ended = tokio::time::timeout_at(deadline, async {
            let fresh = instance.insert(pre.instantiate_async(&mut store).await?);
            fresh.pointsman_verifier_runner().call_load(&mut store, &code).await
        })
        .await;
        match instance {
            Some(instance) => second.settle(Box::new((store, instance)), given, ended),
            None => {
                second.lost = true;
                Err(match ended {
                    Ok(Err(error)) => failed(error),
                    Ok(Ok(_)) | Err(_) => format!("limit: {OUT_OF_TIME}"),
                })
            }
        }
    }

    async fn call(&mut self, name: String, args: String) -> Result<String, String> {
        let Some(second) = &mut self.second else { return Err("limit: code cannot call code".into()) };
        let Some(mut live) = second.live.take() else {
            return Err(if second.lost { "limit: the instance is gone" } else { "limit: nothing is loaded" }.into());
        };
        let given = live.0.get_fuel().unwrap_or(0);
        let deadline = second.left.deadline;
        let (store, instance) = &mut *live;
        let called = instance.pointsman_verifier_runner().call_call(store, &name, &args);
        let ended = tokio::time::timeout_at(deadline, called).await;
        second.settle(live, given, ended)
    }
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: self.wasi.get_or_insert_with(denied), table: &mut self.table }
    }
}

/// No arguments, variables, files, sockets or names; output goes nowhere, input is at its end, time stands still and
/// randomness repeats.
fn denied() -> WasiCtx {
    WasiCtx::builder()
        .wall_clock(StandingClock)
        .monotonic_clock(StandingClock)
        .secure_random(Deterministic::new(RANDOM.clone()))
        .insecure_random(Deterministic::new(RANDOM.clone()))
        .insecure_random_seed(0)
        .max_random_size(RANDOM_BYTES_MAX)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .build()
}

struct StandingClock;

impl HostWallClock for StandingClock {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn now(&self) -> Duration {
        FIXED_TIME
    }
}

impl HostMonotonicClock for StandingClock {
    fn resolution(&self) -> u64 {
        1_000_000_000
    }

    fn now(&self) -> u64 {
        0
    }
}

impl ResourceLimiter for Guest {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let granted = desired <= self.memory_bytes_max;
        self.memory_refused |= !granted;
        Ok(granted)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_ELEMENTS_MAX)
    }
}
