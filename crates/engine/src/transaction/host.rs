//! What a script may ask of its transaction.

use bytes::Bytes;
use model::rid::ItemRid;
use model::token::{Etag, Match};
use model::{Error, Result, charge};
use script::{Host, Item, Page, PageRequest, Query, WriteOptions};

use super::Transaction;
use crate::api::Conditions;
use crate::item::{Mode, not_found};

impl Host for Transaction {
    fn create(&mut self, body: &str, options: &WriteOptions) -> Result<Bytes> {
        Ok(self.write(Mode::Create, None, bytes(body), &conditions(options)?)?.body)
    }

    fn upsert(&mut self, body: &str, options: &WriteOptions) -> Result<(Bytes, bool)> {
        let written = self.write(Mode::Upsert, None, bytes(body), &conditions(options)?)?;
        Ok((written.body, written.created))
    }

    fn replace(&mut self, item: &Item, body: &str, options: &WriteOptions) -> Result<Bytes> {
        let id = self.id_of(item)?;
        Ok(self.write(Mode::Replace, Some(&id), bytes(body), &conditions(options)?)?.body)
    }

    fn delete(&mut self, item: &Item, if_match: Option<&str>) -> Result<()> {
        let id = self.id_of(item)?;
        let if_match = if_match.map(Match::parse);
        let row = Self::delete(self, &id, &Conditions { if_match, if_none_match: None })?;
        self.charge += charge::delete(row.body_bytes as usize, 0);
        Ok(())
    }

    fn read(&mut self, item: &Item, if_none_match: Option<&str>) -> Result<Option<Bytes>> {
        let id = self.id_of(item)?;
        let (row, body) = self.find(&id)?.ok_or_else(|| not_found(&id))?;
        self.charge += charge::read(body.len());
        let seen = if_none_match.is_some_and(|seen| Match::parse(seen).matches(Some(row.etag)));
        Ok((!seen).then_some(body))
    }

    fn list(&mut self, page: &PageRequest) -> Result<Page> {
        self.page(page)
    }

    fn query(&mut self, query: &Query, page: &PageRequest) -> Result<Page> {
        let parameters = super::pages::parameters(query.parameters.as_deref())?;
        let statement = self.container.statement(&query.text, &parameters)?;
        let functions = self.functions.as_ref().and_then(|all| all.named_in(&query.text));
        self.answer(&statement, functions.as_ref(), page)
    }

    fn accepts(&self) -> bool {
        self.has_room() && self.broken.is_none()
    }
}

impl Transaction {
    /// The id that a link means.
    fn id_of(&mut self, item: &Item) -> Result<String> {
        match item {
            Item::Id(id) => Ok(id.clone()),
            Item::Rid { rid, id } => {
                let unknown = || not_found(rid);
                let parsed = ItemRid::parse(rid).filter(|rid| rid.container == self.container.rid);
                let ordinal = parsed.ok_or_else(unknown)?.ordinal;
                match id {
                    Some(id) => {
                        let found = self.find(id)?.filter(|(row, _)| row.ordinal == ordinal);
                        found.map(|_| id.clone()).ok_or_else(unknown)
                    }
                    None => self.id_by_ordinal(ordinal)?.ok_or_else(unknown),
                }
            }
        }
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn conditions(options: &WriteOptions) -> Result<Conditions> {
    if options.indexing == script::Indexing::Exclude {
        return Err(Error::bad_request(
            "indexAction 'exclude' is not supported: what is indexed is said by the container's policy",
        ));
    }
    let if_match = options.if_match.as_deref().map(|text| match Etag::parse(text) {
        Some(etag) => Match::Etag(etag),
        None => Match::parse(text),
    });
    Ok(Conditions { if_match, if_none_match: None })
}
