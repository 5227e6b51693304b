//! What a script asks of its host, as it travels from the worker to the pool.

use crate::frame::{Decoder, Encoder, Malformed};
use crate::host::{Indexing, Item, PageRequest, Query, WriteOptions};

type Read<T> = std::result::Result<T, Malformed>;

/// One thing asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create { body: String, options: WriteOptions },
    Upsert { body: String, options: WriteOptions },
    Replace { item: Item, body: String, options: WriteOptions },
    Delete { item: Item, if_match: Option<String> },
    Read { item: Item, if_none_match: Option<String> },
    List { page: PageRequest },
    Query { query: Query, page: PageRequest },
}

/// An operation as the script API writes it down: seven fields, whose meaning depends on the first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) code: u32,
    /// How the item is named (0 by id, 1 by rid), or the size of a page.
    pub(crate) how: u32,
    /// Name of the item, or the continuation of a page.
    pub(crate) name: &'a str,
    /// Known id of an item named by rid, or the parameters of a query.
    pub(crate) extra: Option<&'a str>,
    /// Body of an item, or text of a query.
    pub(crate) text: &'a str,
    /// The etag of a condition.
    pub(crate) condition: Option<&'a str>,
    /// What to index (0 policy, 1 include, 2 exclude), or whether to scan.
    pub(crate) flag: u32,
}

impl Asked<'_> {
    pub(crate) fn write(&self, to: &mut Encoder) {
        to.byte(u8::try_from(self.code).unwrap_or(u8::MAX)).number(self.how).text(self.name);
        to.optional(self.extra).text(self.text).optional(self.condition).number(self.flag);
    }

    fn options(&self) -> Read<WriteOptions> {
        let indexing = match self.flag {
            0 => Indexing::Policy,
            1 => Indexing::Include,
            2 => Indexing::Exclude,
            _ => return Err(Malformed),
        };
        Ok(WriteOptions { if_match: self.condition.map(str::to_owned), indexing })
    }

    fn item(&self) -> Read<Item> {
        let name = self.name.to_owned();
        match self.how {
            0 => Ok(Item::Id(name)),
            1 => Ok(Item::Rid { rid: name, id: self.extra.map(str::to_owned) }),
            _ => Err(Malformed),
        }
    }
}

impl Operation {
    /// Reads what [`Asked::write`] wrote.
    pub(crate) fn read(from: &mut Decoder<'_>) -> Read<Self> {
        let asked = Asked {
            code: from.byte()?.into(),
            how: from.number()?,
            name: from.text()?,
            extra: from.optional()?,
            text: from.text()?,
            condition: from.optional()?,
            flag: from.number()?,
        };
        let body = || asked.text.to_owned();
        let condition = || asked.condition.map(str::to_owned);
        let page = || PageRequest {
            size: asked.how.max(1),
            continuation: asked.name.to_owned(),
            enable_scan: asked.flag == 1,
        };
        let extra = || asked.extra.map(str::to_owned);
        Ok(match asked.code {
            0 => Self::Create { body: body(), options: asked.options()? },
            1 => Self::Upsert { body: body(), options: asked.options()? },
            2 => Self::Replace { item: asked.item()?, body: body(), options: asked.options()? },
            3 => Self::Delete { item: asked.item()?, if_match: condition() },
            4 => Self::Read { item: asked.item()?, if_none_match: condition() },
            5 => Self::List { page: page() },
            6 => Self::Query { query: Query { text: body(), parameters: extra() }, page: page() },
            _ => return Err(Malformed),
        })
    }
}
