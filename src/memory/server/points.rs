//! Points: entries as the server keeps them, and the requests that move them.

use std::collections::HashMap;

use ::qdrant_client::{
    Payload as Fields,
    qdrant::{
        Condition, CountPointsBuilder, Direction, Filter as ServerFilter, GetPointsBuilder, OrderByBuilder,
        PayloadIncludeSelector, PointStruct, QueryPointsBuilder, Range, RetrievedPoint, ScrollPointsBuilder,
        SearchParamsBuilder, UpdateStatus, UpsertPointsBuilder, Value, VectorsOutput, vector_output::Vector,
    },
};

use super::{
    super::{Entry, Filter, MemoryError, payload::Payload},
    failure::Failure,
    link::Link,
};
use crate::round::{ArmId, Domain, Embedding, Neighbour};

/// Entries with their numbers.
pub(super) type Numbered<'a> = (u64, &'a Entry);

impl Link {
    /// Writes entries to their slots; returns when they are applied. `entries` are in order of their numbers and lie
    /// within one turn of the ring.
    ///
    /// A request that is applied late, or again, never overwrites a newer entry. Let the first number be `a`. Slot
    /// `s % cap` may be written for an entry `s` unless it holds a `t > s`. Two numbers of one slot differ by a multiple
    /// of `cap`, so that such a `t` is at least `s + cap`, hence at least `a + cap`; and a `t` that may be overwritten is
    /// at most `s`, hence below `a + cap` since the entries lie within one turn. So the one condition `t < a + cap` is
    /// right for every slot of the request. The server checks it where it writes; empty slots are always written.
    pub async fn upsert(&self, collection: &str, cap: u64, entries: &[Numbered<'_>]) -> Result<(), Failure> {
        let Some((first_seq, _)) = entries.first() else { return Ok(()) };
        let points = entries.iter().map(|(seq, entry)| point(cap, *seq, entry)).collect::<Result<Vec<_>, _>>()?;
        // A payload's integer is compared as a float, exact up to 2^53.
        let newer = Range { lt: Some((first_seq + cap) as f64), ..Range::default() };
        let request = UpsertPointsBuilder::new(collection, points)
            .wait(true)
            .update_filter(ServerFilter::must([Condition::range("seq", newer)]));
        let answer = self.ask(async |client| client.upsert_points(request).await).await.map_err(Failure::of_a_write)?;
        let status = answer.result.map_or(UpdateStatus::UnknownUpdateStatus, |result| result.status());
        if status == UpdateStatus::Completed {
            Ok(())
        } else {
            Err(Failure::NoAnswer(format!("a write is {}, not completed", status.as_str_name())))
        }
    }

    /// The highest number held.
    pub async fn newest(&self) -> Result<Option<u64>, Failure> {
        let request = ScrollPointsBuilder::new(&self.place.collection)
            .limit(1)
            .order_by(OrderByBuilder::new("seq").direction(Direction::Desc as i32))
            .with_payload(PayloadIncludeSelector { fields: vec!["seq".into()] })
            .with_vectors(false);
        let answer = self.ask(async |client| client.scroll(request).await).await?;
        let Some(point) = answer.result.first() else { return Ok(None) };
        let seq = point.payload.get("seq").and_then(Value::as_integer).and_then(|seq| seq.try_into().ok());
        seq.map(Some).ok_or_else(|| Failure::Other("an entry has no number: something else writes there".into()))
    }

    /// How many entries are held, counted.
    pub async fn count(&self) -> Result<u64, Failure> {
        let request = CountPointsBuilder::new(&self.place.collection).exact(true);
        let answer = self.ask(async |client| client.count(request).await).await?;
        answer.result.map(|result| result.count).ok_or_else(|| Failure::Other("a count without a number".into()))
    }

    /// The entries in these slots with their numbers; empty slots are left out.
    pub async fn slots(&self, slots: impl Iterator<Item = u64>) -> Result<Vec<(u64, Entry)>, Failure> {
        let ids: Vec<_> = slots.map(Into::into).collect();
        let request = GetPointsBuilder::new(&self.place.collection, ids).with_payload(true).with_vectors(true);
        let answer = self.ask(async |client| client.get_points(request).await).await?;
        let read = |RetrievedPoint { payload, vectors, .. }| {
            let (embedding, payload) = read(payload, vectors)?;
            Ok((payload.seq, payload.into_entry(embedding)))
        };
        answer.result.into_iter().map(read).collect()
    }

    /// The `k` entries most alike, scored again from the vectors that came with the payloads.
    pub async fn nearest(&self, embedding: &Embedding, k: usize, filter: &Filter) -> Result<Vec<Neighbour>, Failure> {
        let request = QueryPointsBuilder::new(&self.place.collection)
            .query(embedding.as_slice().to_vec())
            .limit(k as u64)
            .filter(conditions(filter))
            .params(SearchParamsBuilder::default().exact(true))
            .with_payload(true)
            .with_vectors(true);
        let answer = self.ask(async |client| client.query(request).await).await?;
        let scored = answer.result.into_iter().map(|hit| {
            let (stored, payload) = read(hit.payload, hit.vectors)?;
            Ok(payload.into_neighbour(embedding.cosine(&stored)))
        });
        scored.collect()
    }
}

fn point(cap: u64, seq: u64, entry: &Entry) -> Result<PointStruct, Failure> {
    let fields = serde_json::to_value(Payload::new(seq, entry))
        .map_err(|error| error.to_string())
        .and_then(|fields| Fields::try_from(fields).map_err(|error| error.to_string()))
        .map_err(|error| Failure::Said(MemoryError::Invalid(error)))?;
    Ok(PointStruct::new(seq % cap, entry.embedding.as_slice().to_vec(), fields))
}

fn read(fields: HashMap<String, Value>, vectors: Option<VectorsOutput>) -> Result<(Embedding, Payload), Failure> {
    let foreign = |reason: String| Failure::Other(format!("an entry cannot be read ({reason}); did another write it?"));
    let payload = serde_json::from_value(Fields::from(fields).into()).map_err(|error| foreign(error.to_string()))?;
    match vectors.and_then(|vectors| vectors.get_vector()) {
        Some(Vector::Dense(vector)) => {
            Ok((Embedding::new(vector.data).map_err(|error| foreign(error.to_string()))?, payload))
        }
        _ => Err(foreign("it has no vector".into())),
    }
}

fn conditions(filter: &Filter) -> ServerFilter {
    let fields =
        [("domain", filter.domain.as_ref().map(Domain::as_str)), ("arms", filter.arm.as_ref().map(ArmId::as_str))];
    let conditions = fields.into_iter().filter_map(|(field, value)| Some(Condition::matches(field, value?.to_owned())));
    ServerFilter::must(conditions)
}
