//! Queries that look at one item at a time: a filter over lists that are no containers, and over
//! changes.

use bytes::Bytes;
use model::{Error, Result};

use crate::ast::Output;
use crate::bound::{ITEM, Node, Shape};
use crate::error::unserved;
use crate::eval::rows::Rows;
use crate::eval::{Context, Frame};
use crate::statement::Statement;
use crate::world::{Budget, Settings, World};

impl Statement {
    /// Whether every item gives its rows without regard to any other.
    pub fn is_item_wise(&self) -> bool {
        let bound = &self.bound;
        let ordered = self.query.order_by.is_some();
        let counted = bound.top.is_some() || bound.offset_limit.is_some();
        let grouped = bound.block.grouping.is_some() || bound.block.distinct;
        bound.reads && !ordered && !counted && !grouped && self.derived.is_none()
    }

    /// The rows that one item gives, as JSON; the item is checked JSON text. Meant for statements
    /// that are item-wise: whatever looks at several items is left out.
    pub fn rows_of(&self, item: &[u8], world: &dyn World) -> Result<Vec<Bytes>> {
        let budget = Budget::default();
        let context = Context {
            world,
            started_ticks: world.now_ticks(),
            settings: &self.settings,
            budget: &budget,
            fields: &self.bound.fields,
        };
        let block = &self.bound.block;
        let mut frame = Frame::new(&context, self.bound.slots, item);
        let mut rows = Rows::new(block);
        let mut found = Vec::new();
        while rows.next(&mut frame)? {
            let mut out = Vec::new();
            if block.passes(&mut frame)? && block.output(&mut frame)?.write_into(&mut out) {
                found.push(out.into());
            }
        }
        Ok(found)
    }
}

/// A query that selects whole items: `SELECT * FROM c WHERE …`.
pub struct Filter(Statement);

impl Filter {
    /// Reads a filter. Names of parameters include the `@`.
    pub fn new(text: &str, parameters: &[(String, serde_json::Value)]) -> Result<Self> {
        let statement = Statement::new(text, parameters, &Settings::default())?;
        if statement.query.order_by.is_some() {
            return Err(unserved("Order-by is not supported for the target resource type."));
        }
        let whole = match (&statement.query.output, &statement.bound.block.output) {
            (Output::Star(_), _) => true,
            (Output::Value(_), Shape::Value(node)) => matches!(node, Node::Slot(ITEM)),
            _ => false,
        };
        if !whole || !statement.is_item_wise() || !statement.bound.block.from.is_empty() {
            return Err(Error::bad_request(
                "this list is only selected from as a whole: SELECT * FROM c WHERE …",
            ));
        }
        Ok(Self(statement))
    }

    /// Whether an item, as checked JSON text, is selected.
    pub fn matches(&self, item: &[u8]) -> Result<bool> {
        let budget = Budget::default();
        let context = Context {
            world: &Timeless,
            started_ticks: 0,
            settings: &self.0.settings,
            budget: &budget,
            fields: &self.0.bound.fields,
        };
        let mut frame = Frame::new(&context, self.0.bound.slots, item);
        self.0.bound.block.passes(&mut frame)
    }
}

/// Lists of resources are selected from without regard to time and chance.
struct Timeless;

impl World for Timeless {
    fn now_ticks(&self) -> i64 {
        0
    }

    fn random(&self) -> f64 {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEM: &str = r#"{"id":"a","resource":"dbs/x/colls/y/","n":1.50,"z":null,"list":[1]}"#;

    /// `true` or `false` for [`ITEM`], or a piece of the refusal.
    #[track_caller]
    fn check(text: &str, expect: &str) {
        let parameters = [("@id".to_owned(), serde_json::json!("a"))];
        let got = match Filter::new(text, &parameters) {
            Ok(filter) => filter.matches(ITEM.as_bytes()).expect("no limit").to_string(),
            Err(error) => error.message,
        };
        assert!(got.contains(expect), "{text}\nexpected {expect}\ngot      {got}");
    }

    #[test]
    fn what_the_sdks_ask() {
        check("SELECT * FROM root r WHERE r.resource='dbs/x/colls/y/'", "true");
        check("SELECT * from root where root.resource = \"dbs/x/colls/y/\"", "true");
        check("SELECT * FROM c WHERE c.id = @id", "true");
        check("select * from c", "true");
        check("  SELECT\n*\tFROM root AS r WHERE r[\"id\"] = 'b'  ", "false");
        check("SELECT VALUE c FROM c WHERE c.n > 1 OR c.id = 'z'", "true");
        check("SELECT * FROM c WHERE c.missing = null", "false");
    }

    #[test]
    fn what_needs_more_than_one_item_is_refused() {
        check("SELECT * FROM c ORDER BY c.id", "Order-by is not supported");
        check("SELECT c.id FROM c", "selected from as a whole");
        check("SELECT TOP 1 * FROM c", "selected from as a whole");
        check("SELECT VALUE COUNT(1) FROM c", "selected from as a whole");
        check("SELECT * FROM x IN c.list", "selected from as a whole");
        check("SELECT * FROM c WHERE c.id = @other", "SC2007");
        check("SELECT", "SC1002");
    }

    #[test]
    fn an_item_gives_its_rows() {
        let statement = Statement::new(
            "SELECT c.id, x FROM c JOIN x IN c.list WHERE c.n > 1",
            &[],
            &Settings::default(),
        );
        let statement = statement.expect("a query");
        assert!(statement.is_item_wise());
        let rows = statement.rows_of(ITEM.as_bytes(), &Timeless).expect("rows");
        assert_eq!(rows, [Bytes::from_static(b"{\"id\":\"a\",\"x\":1}")]);
    }
}
