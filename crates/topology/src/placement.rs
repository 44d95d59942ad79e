//! Which pods become primaries and which replicas of whom: a replica stands on another Kubernetes node and zone than its
//! primary, and no node or zone holds a majority of primaries, wherever that can be avoided. Pure and deterministic.

use crate::identity::PodName;
use std::collections::BTreeMap;

/// Where a pod runs, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    pub node: Option<String>,
    pub zone: Option<String>,
}

/// One pod to be placed, and what is settled about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    pub pod: PodName,
    pub location: Location,
    /// It owns slots already.
    pub primary: bool,
    /// It is a replica already, of this pod.
    pub replica_of: Option<PodName>,
}

/// One shard to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardPlan {
    pub primary: PodName,
    pub replicas: Vec<PodName>,
}

/// Shards for `masters` × (1 + `replicas`) pods. What is settled stays; fewer pods give fewer replicas.
pub fn place(sites: &[Site], masters: usize, replicas: usize) -> Vec<ShardPlan> {
    let primaries = primaries(sites, masters);
    let mut shards: Vec<Vec<usize>> = primaries.iter().map(|primary| vec![*primary]).collect();
    attach_settled(sites, &mut shards);
    let placed = |shards: &[Vec<usize>], site: usize| shards.iter().any(|shard| shard.contains(&site));
    let free: Vec<usize> = (0..sites.len()).filter(|site| !placed(&shards, *site)).collect();
    for site in free {
        attach(sites, &mut shards, site, replicas);
    }
    improve(sites, &mut shards);
    shards.iter().filter_map(|shard| named(sites, shard)).collect()
}

/// The pods of the primaries that there are, and of more to make `masters` of them, spread over zones and nodes.
pub fn spread(sites: &[Site], masters: usize) -> Vec<PodName> {
    let chosen = primaries(sites, masters);
    chosen.iter().filter_map(|index| sites.get(*index)).map(|site| site.pod.clone()).collect()
}

/// The shard a newcomer helps most: the one with the fewest replicas, then the one it stands farthest from.
/// Each shard is given by where its members run, the primary first.
pub fn shard_for(newcomer: &Location, shards: &[Vec<Location>]) -> Option<usize> {
    let key = |index: &usize| {
        let shard = shards.get(*index).cloned().unwrap_or_default();
        let size = shard.len();
        (size, cost(&shard.iter().chain([newcomer]).collect::<Vec<_>>()), *index)
    };
    (0..shards.len()).min_by_key(key)
}

fn primaries(sites: &[Site], masters: usize) -> Vec<usize> {
    let mut chosen: Vec<usize> = indexes(sites, |site| site.primary);
    let mut free = indexes(sites, |site| !site.primary && site.replica_of.is_none());
    let mut crowds = Crowds::default();
    chosen.iter().for_each(|site| crowds.join(location(sites, *site)));
    while chosen.len() < masters {
        let places = free.iter().enumerate();
        let next = places.min_by_key(|(_, site)| (crowds.around(location(sites, **site)), **site));
        let Some(next) = next.map(|(index, _)| index) else { break };
        let site = free.remove(next);
        crowds.join(location(sites, site));
        chosen.push(site);
    }
    chosen
}

/// How many primaries there are in each zone and on each node.
#[derive(Default)]
struct Crowds<'a> {
    zones: BTreeMap<Option<&'a str>, usize>,
    nodes: BTreeMap<Option<&'a str>, usize>,
}

impl<'a> Crowds<'a> {
    fn join(&mut self, location: &'a Location) {
        *self.zones.entry(location.zone.as_deref()).or_default() += 1;
        *self.nodes.entry(location.node.as_deref()).or_default() += 1;
    }

    fn around(&self, location: &Location) -> (usize, usize) {
        let zone = self.zones.get(&location.zone.as_deref());
        let node = self.nodes.get(&location.node.as_deref());
        (zone.copied().unwrap_or_default(), node.copied().unwrap_or_default())
    }
}

fn attach_settled(sites: &[Site], shards: &mut [Vec<usize>]) {
    for (index, site) in sites.iter().enumerate() {
        let is_primary = |shard: &Vec<usize>| shard.first().and_then(|site| sites.get(*site)).map(|site| &site.pod);
        let shard =
            shards.iter_mut().find(|shard| site.replica_of.is_some() && is_primary(shard) == site.replica_of.as_ref());
        if let Some(shard) = shard {
            shard.push(index);
        }
    }
}

fn attach(sites: &[Site], shards: &mut [Vec<usize>], site: usize, replicas: usize) {
    let open = shards.iter_mut().filter(|shard| shard.len() <= replicas);
    let best = open.min_by_key(|shard| {
        let members: Vec<&Location> = shard.iter().chain([&site]).map(|member| location(sites, *member)).collect();
        (cost(&members), shard.len())
    });
    if let Some(shard) = best {
        shard.push(site);
    }
}

/// Exchanges two replicas of different shards as long as that makes things better.
fn improve(sites: &[Site], shards: &mut [Vec<usize>]) {
    let total = |shards: &[Vec<usize>]| shards.iter().map(|shard| shard_cost(sites, shard)).sum::<u32>();
    let mut rounds = 0;
    while total(shards) > 0 && rounds < 8 && improve_once(sites, shards) {
        rounds += 1;
    }
}

fn improve_once(sites: &[Site], shards: &mut [Vec<usize>]) -> bool {
    let mut improved = false;
    let bad: Vec<usize> = (0..shards.len()).filter(|shard| shard_cost(sites, at(shards, *shard)) > 0).collect();
    for one in bad {
        for two in (0..shards.len()).filter(|two| *two != one) {
            improved |= exchange(sites, shards, one, two);
        }
    }
    improved
}

fn exchange(sites: &[Site], shards: &mut [Vec<usize>], one: usize, two: usize) -> bool {
    let (left, right) = (at(shards, one).to_vec(), at(shards, two).to_vec());
    let before = shard_cost(sites, &left) + shard_cost(sites, &right);
    let pairs = (1..left.len()).flat_map(|l| (1..right.len()).map(move |r| (l, r)));
    let swaps = pairs.filter_map(|(l, r)| swapped(sites, &left, &right, l, r));
    let after = |(left, right): &(Vec<usize>, Vec<usize>)| shard_cost(sites, left) + shard_cost(sites, right);
    let Some(best) = swaps.min_by_key(after).filter(|swap| after(swap) < before) else { return false };
    if let Some(shard) = shards.get_mut(one) {
        *shard = best.0;
    }
    if let Some(shard) = shards.get_mut(two) {
        *shard = best.1;
    }
    true
}

/// Both shards with one replica each exchanged, unless one of those is settled.
fn swapped(sites: &[Site], left: &[usize], right: &[usize], l: usize, r: usize) -> Option<(Vec<usize>, Vec<usize>)> {
    let (one, two) = (*left.get(l)?, *right.get(r)?);
    let settled = |site: usize| sites.get(site).is_none_or(|site| site.replica_of.is_some());
    let replace = |shard: &[usize], from: usize, to: usize| {
        shard.iter().map(|site| if *site == from { to } else { *site }).collect::<Vec<_>>()
    };
    (!settled(one) && !settled(two)).then(|| (replace(left, one, two), replace(right, two, one)))
}

fn shard_cost(sites: &[Site], shard: &[usize]) -> u32 {
    cost(&shard.iter().map(|site| location(sites, *site)).collect::<Vec<_>>())
}

/// 0 when all members stand on different nodes and zones. Sharing with the primary weighs more than among replicas.
fn cost(members: &[&Location]) -> u32 {
    let mut cost = 0;
    for (index, one) in members.iter().enumerate() {
        for two in members.iter().skip(index + 1) {
            let same_node = u32::from(one.node.is_some() && one.node == two.node);
            let same_zone = u32::from(one.zone.is_some() && one.zone == two.zone);
            cost += if index == 0 { 100 * same_node + 20 * same_zone } else { 5 * same_node + same_zone };
        }
    }
    cost
}

fn named(sites: &[Site], shard: &[usize]) -> Option<ShardPlan> {
    let mut pods = shard.iter().filter_map(|site| sites.get(*site)).map(|site| site.pod.clone());
    Some(ShardPlan { primary: pods.next()?, replicas: pods.collect() })
}

fn indexes(sites: &[Site], which: impl Fn(&Site) -> bool) -> Vec<usize> {
    sites.iter().enumerate().filter(|(_, site)| which(site)).map(|(index, _)| index).collect()
}

fn at(shards: &[Vec<usize>], index: usize) -> &[usize] {
    shards.get(index).map(Vec::as_slice).unwrap_or_default()
}

fn location(sites: &[Site], site: usize) -> &Location {
    static NOWHERE: Location = Location { node: None, zone: None };
    sites.get(site).map_or(&NOWHERE, |site| &site.location)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn site(index: usize, node: &str, zone: &str) -> Site {
        let location = Location { node: Some(node.to_owned()), zone: Some(zone.to_owned()).filter(|z| !z.is_empty()) };
        Site { pod: PodName::new(format!("p-{index}")), location, primary: false, replica_of: None }
    }

    fn node_of<'a>(sites: &'a [Site], pod: &PodName) -> &'a Location {
        &sites.iter().find(|site| site.pod == *pod).unwrap().location
    }

    #[test]
    fn over_three_nodes_no_primary_shares_a_node_with_another_or_with_its_replica() {
        let sites: Vec<Site> = (0..6).map(|index| site(index, &format!("n{}", index % 3), "")).collect();
        let shards = place(&sites, 3, 1);
        let mut nodes: Vec<_> = shards.iter().map(|shard| node_of(&sites, &shard.primary).node.clone()).collect();
        nodes.sort();
        nodes.dedup();
        assert_eq!(nodes.len(), 3);
        for shard in &shards {
            assert_ne!(node_of(&sites, &shard.primary), node_of(&sites, &shard.replicas[0]));
        }
    }

    #[test]
    fn pods_bunched_by_ordinal_are_still_spread() {
        let sites: Vec<Site> =
            (0..6).map(|index| site(index, &format!("n{}", index / 2), &format!("z{}", index / 2))).collect();
        for shard in place(&sites, 3, 1) {
            assert_ne!(node_of(&sites, &shard.primary).zone, node_of(&sites, &shard.replicas[0]).zone);
        }
    }

    #[test]
    fn what_is_settled_stays() {
        let mut sites: Vec<Site> = (0..6).map(|index| site(index, "n", "")).collect();
        sites[5].primary = true;
        sites[0].replica_of = Some("p-5".into());
        let shards = place(&sites, 3, 1);
        let settled = shards.iter().find(|shard| shard.primary == "p-5".into()).unwrap();
        assert_eq!(settled.replicas, ["p-0".into()]);
    }

    #[test]
    fn a_newcomer_goes_where_replicas_lack_and_then_away_from_the_primary() {
        let at = |node: &str| Location { node: Some(node.to_owned()), zone: None };
        let shards = vec![vec![at("a"), at("b")], vec![at("a")], vec![at("b")]];
        assert_eq!(shard_for(&at("a"), &shards), Some(2));
        assert_eq!(shard_for(&at("b"), &shards), Some(1));
        assert_eq!(shard_for(&at("b"), &[]), None);
    }

    proptest! {
        #[test]
        fn every_pod_is_placed_once_and_no_zone_holds_a_majority_when_pods_are_even(
            masters in 3..12usize, replicas in 0..3usize, zones in 3..5usize
        ) {
            let count = masters * (1 + replicas);
            let sites: Vec<Site> = (0..count).map(|i| site(i, &format!("n{}", i % 7), &format!("z{}", i % zones))).collect();
            let shards = place(&sites, masters, replicas);
            let mut pods: Vec<&PodName> = shards.iter().flat_map(|s| s.replicas.iter().chain([&s.primary])).collect();
            pods.sort();
            pods.dedup();
            let mut per_zone: BTreeMap<_, usize> = BTreeMap::new();
            for shard in &shards {
                *per_zone.entry(node_of(&sites, &shard.primary).zone.clone()).or_default() += 1;
            }
            prop_assert_eq!((pods.len(), shards.len()), (count, masters));
            prop_assert!(shards.iter().all(|shard| shard.replicas.len() == replicas));
            prop_assert!(per_zone.values().all(|primaries| primaries * 2 <= masters + 1));
            prop_assert_eq!(&place(&sites, masters, replicas), &shards);
        }
    }
}
