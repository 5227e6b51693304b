//! Which values of an item an indexing policy wants in which index.
//!
//! The paths of a policy are laid out as a tree of names. A walker over an item keeps its
//! [`Place`] in the tree beside its place in the item; off the tree, the last `/*` it has passed
//! decides. The deeper rule wins, and `/?` wins over `/*` at the same depth.

use serde_json::{Map, Value, json};

use super::path::{self, Segment};
use super::{field, indexing};
use crate::Result;

/// Properties that the server adds. Only the time of writing is worth an index by itself; the
/// others are indexed where a policy names them.
const SYSTEM: [&str; 4] = ["_rid", "_self", "_etag", "_attachments"];
/// Indexed whatever the paths say.
const ALWAYS: [&str; 2] = ["id", "_ts"];

/// A step from a value to one inside of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// To the member of this name.
    Name(String),
    /// To every element.
    Elements,
}

/// One property of a composite index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompositePath {
    /// The names that lead to it.
    pub names: Vec<String>,
    /// From the greatest to the least.
    pub descending: bool,
}

/// A computed property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputedProperty {
    /// Its name, at the top of items.
    pub name: String,
    /// The query that computes it.
    pub query: String,
    /// A path of the policy names it: `/*` does not mean computed properties.
    pub indexed: bool,
}

/// A spatial index.
#[derive(Debug, Clone, PartialEq)]
pub struct SpatialIndex {
    /// Where geometries are.
    pub steps: Vec<Step>,
    /// And anywhere below.
    pub below: bool,
    /// Of the plane: west, south, east and north of what is cut into cells; none on the globe.
    pub plane: Option<[f64; 4]>,
}

/// A full-text index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullTextIndex {
    /// The names that lead to the text.
    pub names: Vec<String>,
    /// The language, where a policy says one.
    pub language: Option<String>,
}

/// A vector index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorIndex {
    /// The names that lead to it.
    pub names: Vec<String>,
    /// Numbers of a vector.
    pub dimensions: usize,
    /// `cosine`, `euclidean` or `dotproduct`.
    pub distance: String,
    /// `flat`, `quantizedFlat` or `diskANN`.
    pub kind: String,
}

/// What a policy says, ready to be asked.
#[derive(Debug, Clone)]
pub struct IndexRules {
    nodes: Vec<Node>,
    /// Composite indexes, as they were declared.
    pub composites: Vec<Vec<CompositePath>>,
    /// Spatial indexes.
    pub spatial: Vec<SpatialIndex>,
    /// Vector indexes.
    pub vectors: Vec<VectorIndex>,
    /// Full-text indexes.
    pub full_text: Vec<FullTextIndex>,
    /// Properties that are computed from the others. What is stored under their names, no query
    /// sees.
    pub computed: Vec<ComputedProperty>,
    /// Nothing is indexed.
    pub none: bool,
    source: String,
}

impl PartialEq for IndexRules {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

#[derive(Debug, Clone, Default)]
struct Node {
    /// By name, in order.
    names: Vec<(String, u32)>,
    elements: Option<u32>,
    /// What `/?` says here.
    value: Option<bool>,
    /// What `/*` says from here on down.
    below: Option<bool>,
    /// Another index than the range index wants the value here.
    wanted: bool,
    /// The spatial index of geometries here, and of those below.
    spatial: Option<u16>,
    spatial_below: Option<u16>,
}

/// Where a walker is: on the tree or off it, and what is to be done with what no rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    node: Option<u32>,
    below: bool,
    value: bool,
    spatial: Option<u16>,
    spatial_below: Option<u16>,
}

impl IndexRules {
    /// The rules of a completed definition.
    pub fn read(definition: &Map<String, Value>) -> Result<Self> {
        let part = |key: &str| definition.get(key).cloned().unwrap_or(Value::Null);
        let source = json!({
            "indexingPolicy": part("indexingPolicy"),
            "vectorEmbeddingPolicy": part("vectorEmbeddingPolicy"),
            "fullTextPolicy": part("fullTextPolicy"),
            "geospatialConfig": part("geospatialConfig"),
            "computedProperties": part("computedProperties"),
        });
        Self::compile(source)
    }

    /// Reads what [`source`](Self::source) gave.
    pub fn from_source(source: &str) -> Option<Self> {
        Self::compile(serde_json::from_str(source).ok()?).ok()
    }

    /// Rules that index nothing.
    pub fn nothing() -> Self {
        let source = json!({"indexingPolicy": {"indexingMode": "none", "automatic": false}});
        Self::compile(source).expect("a policy of our own is valid")
    }

    /// The policies that the rules were read from. Equal rules have equal sources.
    pub fn source(&self) -> &str {
        &self.source
    }

    fn compile(source: Value) -> Result<Self> {
        let empty = Map::new();
        let definition = source.as_object().unwrap_or(&empty);
        let summary = indexing::summary(definition)?;
        let mut rules = Self {
            nodes: vec![Node::default()],
            composites: Vec::new(),
            spatial: Vec::new(),
            vectors: Vec::new(),
            full_text: Vec::new(),
            computed: Vec::new(),
            // Items that nobody asked to be indexed one by one are not: queries read them.
            none: summary.mode_none || !summary.automatic,
            source: source.to_string(),
        };
        if rules.none {
            return Ok(rules);
        }
        let policy = field::object(definition, "indexingPolicy")?.unwrap_or(&empty);
        rules.add_ranges(policy)?;
        rules.add_composites(policy)?;
        rules.add_searches(definition, policy)?;
        rules.add_computed(definition)?;
        for node in &mut rules.nodes {
            node.names.sort_unstable();
        }
        Ok(rules)
    }

    fn add_ranges(&mut self, policy: &Map<String, Value>) -> Result<()> {
        for name in SYSTEM {
            let node = self.node(&[Step::Name(name.to_owned())]);
            self.nodes[node].below = Some(false);
        }
        for (key, included) in [("includedPaths", true), ("excludedPaths", false)] {
            for entry in field::objects(policy, key)? {
                let pattern = field::required(entry, "path", key)?;
                for (steps, below) in expand(path::segments(pattern).unwrap_or_default()) {
                    let node = self.node(&steps);
                    let slot = match below {
                        true => &mut self.nodes[node].below,
                        false => &mut self.nodes[node].value,
                    };
                    *slot = Some(included);
                }
            }
        }
        for name in ALWAYS {
            let node = self.node(&[Step::Name(name.to_owned())]);
            self.nodes[node].value = Some(true);
        }
        Ok(())
    }

    fn add_composites(&mut self, policy: &Map<String, Value>) -> Result<()> {
        for index in field::array(policy, "compositeIndexes")? {
            let mut paths = Vec::new();
            for entry in index.as_array().map(Vec::as_slice).unwrap_or_default() {
                let text = entry.get("path").and_then(Value::as_str).unwrap_or_default();
                let names = names_of(text);
                self.want(&names);
                let order = entry.get("order").and_then(Value::as_str).unwrap_or_default();
                let descending = order.eq_ignore_ascii_case("descending");
                paths.push(CompositePath { names, descending });
            }
            if !self.composites.contains(&paths) {
                self.composites.push(paths);
            }
        }
        Ok(())
    }

    fn add_searches(
        &mut self,
        definition: &Map<String, Value>,
        policy: &Map<String, Value>,
    ) -> Result<()> {
        let planar = field::object(definition, "geospatialConfig")?
            .is_some_and(|config| config.get("type").is_some_and(|kind| kind == "Geometry"));
        for index in field::objects(policy, "spatialIndexes")? {
            let pattern = field::required(index, "path", "spatialIndexes")?;
            let plane = planar.then(|| plane_of(index));
            for (steps, below) in expand(path::segments(pattern).unwrap_or_default()) {
                let number = u16::try_from(self.spatial.len()).ok();
                let node = self.node(&steps);
                self.nodes[node].spatial = number;
                if below {
                    self.nodes[node].spatial_below = number;
                }
                self.spatial.push(SpatialIndex { steps, below, plane });
            }
        }
        for index in field::objects(policy, "fullTextIndexes")? {
            let path = field::required(index, "path", "fullTextIndexes")?;
            let names = names_of(path);
            self.want(&names);
            self.full_text.push(FullTextIndex { names, language: language_of(definition, path) });
        }
        for index in field::objects(policy, "vectorIndexes")? {
            self.add_vector(definition, index)?;
        }
        Ok(())
    }

    fn add_vector(
        &mut self,
        definition: &Map<String, Value>,
        index: &Map<String, Value>,
    ) -> Result<()> {
        let path = field::required(index, "path", "vectorIndexes")?;
        let embeddings = super::search::embeddings(definition);
        let Some(embedding) = embeddings.iter().find(|e| e["path"] == path) else { return Ok(()) };
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let names = names_of(path);
        self.want(&names);
        self.vectors.push(VectorIndex {
            names,
            dimensions: embedding["dimensions"].as_u64().unwrap_or(0) as usize,
            distance: text(&embedding["distanceFunction"]),
            kind: index.get("type").map(text).unwrap_or_default(),
        });
        Ok(())
    }

    fn add_computed(&mut self, definition: &Map<String, Value>) -> Result<()> {
        for property in field::objects(definition, "computedProperties")? {
            let name = field::required(property, "name", "computedProperties")?.to_owned();
            let query = field::required(property, "query", "computedProperties")?.to_owned();
            let node = self.nodes[0].names.iter().find(|(known, _)| *known == name);
            let node = node.map(|(_, node)| &self.nodes[*node as usize]);
            let indexed = node.is_some_and(|node| {
                node.wanted || node.value == Some(true) || node.below == Some(true)
            });
            self.computed.push(ComputedProperty { name, query, indexed });
        }
        Ok(())
    }

    /// The computed property of this name.
    pub fn computed_named(&self, name: &str) -> Option<&ComputedProperty> {
        self.computed.iter().find(|property| property.name == name)
    }

    fn want(&mut self, names: &[String]) {
        let steps: Vec<Step> = names.iter().cloned().map(Step::Name).collect();
        let node = self.node(&steps);
        self.nodes[node].wanted = true;
    }

    /// The node at a path, made if need be. Names are in order only once all are there.
    fn node(&mut self, steps: &[Step]) -> usize {
        let mut at = 0;
        for step in steps {
            let next = u32::try_from(self.nodes.len()).expect("a policy has few paths");
            let node = &mut self.nodes[at];
            let child = match step {
                Step::Elements => *node.elements.get_or_insert(next),
                Step::Name(name) => match node.names.iter().find(|(known, _)| known == name) {
                    Some((_, child)) => *child,
                    None => {
                        node.names.push((name.clone(), next));
                        next
                    }
                },
            };
            if child == next {
                self.nodes.push(Node::default());
            }
            at = child as usize;
        }
        at
    }

    /// Where a walker begins: at the item itself.
    pub fn root(&self) -> Place {
        self.place(Some(0), false, None)
    }

    /// Where the member of this name is.
    pub fn member(&self, from: Place, name: &str) -> Place {
        let child = from.node.and_then(|node| {
            let names = &self.nodes[node as usize].names;
            let at = names.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
            Some(names[at].1)
        });
        self.place(child, from.below, from.spatial_below)
    }

    /// Where the elements of an array are.
    pub fn element(&self, from: Place) -> Place {
        let child = from.node.and_then(|node| self.nodes[node as usize].elements);
        self.place(child, from.below, from.spatial_below)
    }

    fn place(&self, node: Option<u32>, above: bool, spatial: Option<u16>) -> Place {
        let Some(found) = node.map(|node| &self.nodes[node as usize]) else {
            let (below, value) = (above, above);
            return Place { node, below, value, spatial, spatial_below: spatial };
        };
        let below = found.below.unwrap_or(above);
        let spatial_below = found.spatial_below.or(spatial);
        Place {
            node,
            below,
            value: found.value.unwrap_or(below),
            spatial: found.spatial.or(spatial),
            spatial_below,
        }
    }

    /// The spatial index that covers the end of a path.
    pub fn spatial_at(&self, steps: &[Step]) -> Option<&SpatialIndex> {
        if self.none {
            return None;
        }
        self.spatial_of(self.walk(steps))
    }

    /// The spatial index of geometries at a place.
    pub fn spatial_of(&self, place: Place) -> Option<&SpatialIndex> {
        self.spatial.get(usize::from(place.spatial?))
    }

    /// Whether another index than the range index wants the value at a place.
    pub fn wanted(&self, place: Place) -> bool {
        place.node.is_some_and(|node| self.nodes[node as usize].wanted)
    }

    /// Whether the value at the end of a path has a range index.
    pub fn indexes(&self, steps: &[Step]) -> bool {
        let hidden = match steps.first() {
            Some(Step::Name(name)) => self.computed_named(name).is_some_and(|one| !one.indexed),
            _ => false,
        };
        !self.none && !hidden && self.walk(steps).is_indexed()
    }

    fn walk(&self, steps: &[Step]) -> Place {
        steps.iter().fold(self.root(), |place, step| match step {
            Step::Name(name) => self.member(place, name),
            Step::Elements => self.element(place),
        })
    }
}

impl Place {
    /// Whether the value here belongs to the range index.
    pub fn is_indexed(self) -> bool {
        self.value
    }

    /// Whether nothing below can belong to any index.
    pub fn is_dead(self) -> bool {
        self.node.is_none() && !self.below && self.spatial.is_none()
    }
}

/// The paths of a pattern, and whether it means all below. A tuple stands for its members.
fn expand(segments: Vec<Segment>) -> Vec<(Vec<Step>, bool)> {
    let mut steps = Vec::new();
    for segment in segments {
        match segment {
            Segment::Name(name) => steps.push(Step::Name(name)),
            Segment::Elements => steps.push(Step::Elements),
            Segment::Value => return vec![(steps, false)],
            Segment::Below => return vec![(steps, true)],
            Segment::Tuple(members) => {
                let path = |names: Vec<String>| {
                    let names = names.into_iter().map(Step::Name);
                    (steps.iter().cloned().chain(names).collect(), false)
                };
                return members.into_iter().map(path).collect();
            }
        }
    }
    vec![(steps, false)]
}

/// The language of the text at a path: its own, or that of the policy.
fn language_of(definition: &Map<String, Value>, path: &str) -> Option<String> {
    let policy = definition.get("fullTextPolicy")?;
    let paths = policy.get("fullTextPaths").and_then(Value::as_array)?;
    let own = paths.iter().find(|entry| entry["path"] == path)?["language"].as_str();
    own.or(policy["defaultLanguage"].as_str()).map(str::to_owned)
}

/// What of the plane a spatial index cuts into cells. What lies outside counts to the border.
fn plane_of(index: &Map<String, Value>) -> [f64; 4] {
    const DEFAULT: f64 = 1e6;
    let bounds = index.get("boundingBox");
    let side = |name: &str, default: f64| {
        let side = bounds.and_then(|bounds| bounds.get(name)).and_then(Value::as_f64);
        side.filter(|side| side.is_finite()).unwrap_or(default)
    };
    let [west, south] = ["xmin", "ymin"].map(|name| side(name, -DEFAULT));
    let [east, north] = ["xmax", "ymax"].map(|name| side(name, DEFAULT));
    // Sides that are the wrong way round, or nowhere apart, cut nothing.
    [west, south, east.max(west + 1.0), north.max(south + 1.0)]
}

/// The names of a path to a property.
fn names_of(path: &str) -> Vec<String> {
    let name = |segment| match segment {
        Segment::Name(name) => Some(name),
        _ => None,
    };
    path::segments(path).unwrap_or_default().into_iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(policy: Value) -> IndexRules {
        let body = json!({"id": "c", "partitionKey": {"paths": ["/pk"]}, "indexingPolicy": policy});
        let definition = super::super::ContainerDefinition::create(body.as_object().unwrap());
        IndexRules::read(definition.unwrap().to_json()).unwrap()
    }

    #[track_caller]
    fn check(rules: &IndexRules, path: &str, expect: bool) {
        let steps: Vec<Step> = path[1..]
            .split('/')
            .map(|step| match step {
                "[]" => Step::Elements,
                name => Step::Name(name.to_owned()),
            })
            .collect();
        assert_eq!(rules.indexes(&steps), expect, "{path}");
    }

    #[test]
    fn everything_is_indexed_by_default() {
        let rules = rules(json!({}));
        for path in ["/a", "/a/b/[]/c", "/id", "/_ts", "/x/_etag"] {
            check(&rules, path, true);
        }
        for path in ["/_etag", "/_rid", "/_self"] {
            check(&rules, path, false);
        }
    }

    #[test]
    fn the_deeper_rule_wins_and_a_value_wins_over_what_is_below() {
        let rules = rules(json!({
            "includedPaths": [{"path": "/a/*"}, {"path": "/a/b/c/?"}, {"path": "/l/[]/x/?"}],
            "excludedPaths": [{"path": "/*"}, {"path": "/a/b/*"}, {"path": "/a/v/?"}],
        }));
        for path in ["/a", "/a/z", "/a/z/[]/y", "/a/b/c", "/l/[]/x", "/id", "/_ts", "/a/v/w"] {
            check(&rules, path, true);
        }
        for path in ["/z", "/a/b", "/a/b/d", "/a/b/c/d", "/a/v", "/l", "/l/[]", "/l/x", "/pk"] {
            check(&rules, path, false);
        }
    }

    #[test]
    fn odd_names_and_tuples_are_paths_too() {
        let rules = rules(json!({
            "includedPaths": [{"path": "/\"a-b\"/?"}, {"path": "/l/[]/{x, y/z}/?"}],
            "excludedPaths": [{"path": "/*"}],
        }));
        for path in ["/a-b", "/l/[]/x", "/l/[]/y/z"] {
            check(&rules, path, true);
        }
        for path in ["/l/[]/y", "/ab"] {
            check(&rules, path, false);
        }
    }

    #[test]
    fn composites_want_their_values_whether_or_not_they_are_indexed_alone() {
        let rules = rules(json!({
            "excludedPaths": [{"path": "/*"}],
            "compositeIndexes": [[{"path": "/a/b", "order": "Descending"}, {"path": "/c"}]],
        }));
        let place = rules.member(rules.member(rules.root(), "a"), "b");
        assert!(rules.wanted(place) && !place.is_indexed() && !place.is_dead());
        assert!(rules.member(rules.root(), "z").is_dead());
        assert!(rules.composites[0][0].descending && !rules.composites[0][1].descending);
        assert_eq!(IndexRules::from_source(rules.source()).unwrap(), rules);
    }

    #[test]
    fn everything_does_not_mean_computed_properties() {
        let rules = |included: &[&str]| {
            let included: Vec<Value> = included.iter().map(|path| json!({"path": path})).collect();
            let definition = json!({
                "indexingPolicy": {"includedPaths": included},
                "computedProperties": [{"name": "low", "query": "SELECT VALUE LOWER(c.a) FROM c"}],
            });
            IndexRules::read(definition.as_object().unwrap()).unwrap()
        };
        check(&rules(&["/*"]), "/low", false);
        check(&rules(&["/*"]), "/a/low", true);
        check(&rules(&["/*", "/low/?"]), "/low", true);
    }

    #[test]
    fn a_policy_that_indexes_nothing_has_no_paths() {
        let nothing = rules(json!({"indexingMode": "none"}));
        assert!(nothing.none);
        check(&nothing, "/id", false);
        assert!(rules(json!({"automatic": false})).none);
        assert!(IndexRules::nothing().none);
    }
}
