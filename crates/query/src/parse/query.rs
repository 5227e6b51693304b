//! Queries and their clauses.

use super::{Parsed, Parser, is_sign, is_word};
use crate::ast::{Collection, FromItem, OrderBy, OrderKey, Output, Query, SelectItem, Span, Step};
use crate::error::Problem;
use crate::lexer::Token;
use crate::limits;

impl Parser<'_> {
    /// `program = query EOF`
    pub(super) fn program(&mut self) -> Parsed<Query> {
        let query = self.query()?;
        match self.current.token {
            Token::End => Ok(query),
            _ => self.unexpected(),
        }
    }

    /// `query = select [from] [where] [groupby] [orderby] [offlim]`
    pub(super) fn query(&mut self) -> Parsed<Query> {
        let start = self.current.span;
        self.expect_word("SELECT")?;
        let distinct_span = self.current.span;
        let distinct = self.take_word("DISTINCT")?.then_some(distinct_span);
        let top = if self.take_word("TOP")? { Some(self.count()?) } else { None };
        let output = self.output()?;
        let from = self.from()?;
        let filter = if self.take_word("WHERE")? { Some(self.expression()?) } else { None };
        let group_by = self.group_by()?;
        let order_by = self.order_by()?;
        let offset_limit = if self.take_word("OFFSET")? {
            let offset = self.count()?;
            self.expect_word("LIMIT")?;
            Some((offset, self.count()?))
        } else {
            None
        };
        let span = self.since(start);
        Ok(Query { distinct, top, output, from, filter, group_by, order_by, offset_limit, span })
    }

    fn output(&mut self) -> Parsed<Output> {
        let span = self.current.span;
        if self.take_sign("*")? {
            return Ok(Output::Star(span));
        }
        if self.take_word("VALUE")? {
            let item = self.select_item()?;
            return Ok(Output::Value(Box::new(item.expr)));
        }
        Ok(Output::List(self.list(Self::select_item)?))
    }

    /// `item = expr [[AS] ident]`
    fn select_item(&mut self) -> Parsed<SelectItem> {
        let expr = self.expression()?;
        let alias = if self.take_word("AS")? || self.at_name() { Some(self.name()?) } else { None };
        Ok(SelectItem { expr, alias })
    }

    /// `from = FROM source { JOIN source }`
    fn from(&mut self) -> Parsed<Vec<FromItem>> {
        let mut items = Vec::new();
        if !self.take_word("FROM")? {
            return Ok(items);
        }
        items.push(self.source_item()?);
        while self.at_word("JOIN") {
            if items.len() > limits::JOINS {
                let message = format!(
                    "The query exceeded the maximum number of joins. The allowed limit is {}.",
                    limits::JOINS
                );
                return Err(Box::new(Problem::new("SC3006", message, self.current.span)));
            }
            self.take()?;
            items.push(self.source_item()?);
        }
        Ok(items)
    }

    /// `source = coll [[AS] ident] | ident IN coll`
    fn source_item(&mut self) -> Parsed<FromItem> {
        let start = self.current.span;
        if self.at_name() && is_word(&self.next.token, "IN") {
            let alias = Some(self.name()?);
            self.take()?;
            let collection = self.collection()?;
            return Ok(FromItem { each: true, collection, alias, span: self.since(start) });
        }
        let collection = self.collection()?;
        let alias = if self.take_word("AS")? || self.at_name() { Some(self.name()?) } else { None };
        Ok(FromItem { each: false, collection, alias, span: self.since(start) })
    }

    fn collection(&mut self) -> Parsed<Collection> {
        if self.at_query() {
            self.take()?;
            let query = self.inner_query()?;
            self.expect_sign(")")?;
            return Ok(Collection::Query(Box::new(query)));
        }
        if self.at_name() && is_sign(&self.next.token, "(") {
            return Ok(Collection::Expr(Box::new(self.primary()?)));
        }
        let name = self.name()?;
        let mut steps = Vec::new();
        loop {
            if self.take_sign(".")? {
                steps.push(Step::Member(self.name()?.text));
            } else if self.take_sign("[")? {
                steps.push(self.bracket_step()?);
                self.expect_sign("]")?;
            } else {
                return Ok(Collection::Path(name, steps));
            }
        }
    }

    fn bracket_step(&mut self) -> Parsed<Step> {
        let step = match &self.current.token {
            Token::Text(name) => Step::Member(name.clone()),
            Token::Number(text) => match text.parse() {
                Ok(at) => Step::Element(at),
                Err(_) => return self.unexpected(),
            },
            _ => return self.unexpected(),
        };
        self.take()?;
        Ok(step)
    }

    fn group_by(&mut self) -> Parsed<Vec<crate::ast::Expr>> {
        if !self.take_word("GROUP")? {
            return Ok(Vec::new());
        }
        self.expect_word("BY")?;
        self.list(Self::expression)
    }

    fn order_by(&mut self) -> Parsed<Option<OrderBy>> {
        let start = self.current.span;
        if !self.take_word("ORDER")? {
            return Ok(None);
        }
        self.expect_word("BY")?;
        // `RANK` is a word of its own only before a call.
        let rank = self.at_word("RANK") && matches!(self.next.token, Token::Word(_));
        if rank {
            self.take()?;
        }
        let keys = self.list(Self::order_key)?;
        Ok(Some(OrderBy { rank, keys, span: self.since(start) }))
    }

    /// `okey = expr [ASC|DESC]`
    fn order_key(&mut self) -> Parsed<OrderKey> {
        let expr = self.expression()?;
        let ascending = self.take_word("ASC")?;
        let descending = !ascending && self.take_word("DESC")?;
        Ok(OrderKey { expr, descending, said: ascending || descending })
    }

    fn inner_query(&mut self) -> Parsed<Query> {
        self.enter()?;
        let query = self.query()?;
        self.leave();
        Ok(query)
    }

    /// A query in parentheses, whose span is that of the parentheses.
    pub(super) fn bracketed_query(&mut self) -> Parsed<(Query, Span)> {
        let start = self.current.span;
        self.expect_sign("(")?;
        let query = self.inner_query()?;
        self.expect_sign(")")?;
        Ok((query, self.since(start)))
    }
}
