//! Pointsman: an online contextual-bandit router for LLM work.
//!
//! It takes tasks, picks the worker for each, checks the answer in a sandbox and learns from every verified outcome:
//! observe ([`context`], [`memory`]), act ([`action`], [`arms`], [`modes`]), learn ([`feedback`]). Five records
//! ([`round`]) cross module edges, the [`journal`] is the truth, and the [`router`] turns the crank. The daemon's
//! surface is in [`api`] and [`dashboard`], which show what [`regret`] and [`history`] keep, and [`webhooks`] tell others what was finished; [`replay`] measures policies on
//! recorded outcomes, and [`train`] makes of them what policies start from.

#![deny(unsafe_code, missing_docs)]

pub mod access;
pub mod action;
pub mod api;
pub mod arms;
pub mod chat;
pub mod config;
pub mod context;
pub mod dashboard;
pub mod feedback;
pub mod grammar;
pub mod history;
pub mod journal;
pub mod memory;
pub mod modes;
pub mod regret;
pub mod replay;
pub mod round;
pub mod router;
pub mod telemetry;
pub mod train;
pub mod webhooks;
