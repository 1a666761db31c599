//! Why a worker gave no answer, and what follows from it.

/// Why a worker gave no answer. Texts name the setting to change and hold no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerError {
    /// It could not be reached.
    #[error("cannot reach {url}: {reason}")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// What the connection said.
        reason: String,
    },
    /// The connection ended in the middle of its answer.
    #[error("the answer broke off: {0}")]
    BrokeOff(String),
    /// It took too long.
    #[error("no answer within {0} ms")]
    TimedOut(u64),
    /// It began to answer and then said nothing for too long.
    #[error("the answer stopped for {0} ms; see the arm's idle_timeout_ms")]
    Stalled(u64),
    /// All calls that it may have at one time are running.
    #[error("{0} calls are running, the arm's concurrency, and none ended in time")]
    Busy(usize),
    /// It refused the key.
    #[error("the worker refused the key in ${0}; check the variable and the arm's api_key_env")]
    Unauthorized(String),
    /// It does not know the model.
    #[error("the worker does not know the model {model:?}; check the arm's model and base_url: {body}")]
    UnknownModel {
        /// The model's name, as configured.
        model: String,
        /// The start of what it said.
        body: String,
    },
    /// It sends its callers elsewhere.
    #[error("the worker redirects to {0}, where tasks are not sent; check the arm's base_url")]
    Redirected(String),
    /// It refused the request itself.
    #[error("the worker refused the request ({status}): {body}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The start of what it said.
        body: String,
    },
    /// It has too much to do.
    #[error("the worker is overloaded ({status}): {body}")]
    Overloaded {
        /// The HTTP status.
        status: u16,
        /// The start of what it said.
        body: String,
        /// How long it asks to be left alone, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// It answered with another error.
    #[error("the worker answered {status}: {body}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// The start of what it said.
        body: String,
    },
    /// It answered in a form that is not the protocol's.
    #[error("the worker's answer is not a chat completion: {0}")]
    Protocol(String),
    /// There is no recorded answer for this task.
    #[error("no answer is recorded for task {0}")]
    NotRecorded(String),
    /// The client did not wait for the answer's end.
    #[error("the client left before the answer was whole")]
    ClientLeft,
    /// The request cannot be put to a worker of this kind.
    #[error("this worker cannot be asked so: {0}")]
    Unsupported(String),
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The same call may succeed in a moment.
    Transient,
    /// The same call may succeed when there is less to do.
    Overloaded,
    /// Nothing helps until somebody changes the configuration.
    Setup,
    /// The request is at fault: other workers would refuse it too, and nothing is known of this one.
    Request,
    /// The worker cannot be asked so; another one may, and nothing is known of this one.
    Unfit,
    /// The worker is at fault, and asking again would cost the same again.
    Answer,
}

impl WorkerError {
    /// What follows from it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unreachable { .. } | Self::BrokeOff(_) | Self::Status { .. } => ErrorClass::Transient,
            Self::Overloaded { .. } | Self::Busy(_) => ErrorClass::Overloaded,
            Self::Unauthorized(_) | Self::UnknownModel { .. } | Self::Redirected(_) => ErrorClass::Setup,
            Self::Refused { .. } | Self::ClientLeft => ErrorClass::Request,
            Self::Unsupported(_) => ErrorClass::Unfit,
            Self::TimedOut(_) | Self::Stalled(_) | Self::Protocol(_) | Self::NotRecorded(_) => ErrorClass::Answer,
        }
    }

    /// Its kind, for traces.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::BrokeOff(_) => "broke_off",
            Self::TimedOut(_) => "timeout",
            Self::Stalled(_) => "stalled",
            Self::Busy(_) => "busy",
            Self::Unauthorized(_) => "unauthorized",
            Self::UnknownModel { .. } => "unknown_model",
            Self::Redirected(_) => "redirected",
            Self::Refused { .. } => "refused",
            Self::Overloaded { .. } => "overloaded",
            Self::Status { .. } => "status",
            Self::Protocol(_) => "protocol",
            Self::NotRecorded(_) => "not_recorded",
            Self::ClientLeft => "client_left",
            Self::Unsupported(_) => "unsupported",
        }
    }

    /// Whether it says something of the worker.
    pub fn blames_worker(&self) -> bool {
        !matches!(self.class(), ErrorClass::Request | ErrorClass::Unfit)
    }

    /// How long the worker asks to be left alone, in milliseconds.
    pub fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Self::Overloaded { retry_after_ms, .. } => *retry_after_ms,
            _ => None,
        }
    }
}
