/// What a walk can find.
enum SequenceViolation {
    /// A collector delivered a row that is not above the row before it.
    case order
    /// A row arrived at or below the position through which the collector has delivered.
    case late
    /// A client received a version that is not in the history.
    case phantom
    /// At the end, a collector has not delivered the newest version of a document.
    case newest
    /// A client that moves between collectors received a version twice or late, or not at all.
    case roam
}

/// A rule that is left out.
enum SequenceMistake: CaseIterable {
    case none

    // The counter.
    /// R1: a pass does not raise the counter to the mark that it sends.
    case floorNotRaised
    /// R1: a pass notes the high seqnos first, and raises the counter later.
    case seqnosNotedBeforeFloor
    /// A write draws its number, and is appended to the history later.
    case numberDrawnOutsideLock
    /// R5: a restarted node derives its counter from the documents of its copies.
    case counterFromDocuments
    /// A replicated version does not raise the counter of the node that receives it.
    case counterIgnoresCopies
    /// A write by another program keeps the number that it has.
    case foreignNumberKept

    // Marks.
    /// R2: a mark counts for every stream of its connection.
    case streamNumberIgnored
    /// R2: a mark names the streams that are open when it is sent, not those at its pass.
    case streamsNamedAtSending
    /// R3: a mark counts before the collector has applied the mark's map.
    case newerMapNotAwaited
    /// R4: the collector's minimum contains only owners.
    case minimumOverOwners
    /// R6: a mark does not wait for prepares that were outstanding at its pass.
    case preparesNotAwaited
    /// A pass continues after its node handed over a vBucket.
    case passOutlivesMove

    // Replication.
    /// R7: neither rows nor marks wait for replicas.
    case replicationNotAwaited
    /// R7: marks wait for replicas, but rows are sent at once.
    case rowsBeforeReplication
    /// R7: rows wait for replicas, but marks do not.
    case marksBeforeReplication
    /// R7: a silent replica does not count.
    case silentReplicaIgnored

    // Start, join and return.
    /// R8: the node serves without the counters of the other members.
    case counterNotExchanged
    /// R8: the node reads the counters before the members count the node.
    case servesBeforeCounted
    /// R8: the node does not ask all members.
    case oneMemberAsked
    /// A collector keeps the floor of a node that left, for the next node with its slot.
    case floorOutlivesMember

    // The past.
    /// A page ends at the highest position of its indexes instead of the lowest.
    case pageCutAtHighest
    /// A page ends at its last row.
    case pageWithoutCut
    /// A page ends at the indexes' positions, whatever the other members' marks are.
    case pageCutByOwnersOnly
    /// A page is cut at the collector's position after the last index was read.
    case pageCutAtItsEnd
    /// The index names a newer mark than the one to which it is complete.
    case indexPairTorn
    /// An index is read for a vBucket that was not the node's at the index's position.
    case indexOfEarlierOwner
    /// A client continues in the ring after a page, also if the ring begins above the page's end.
    case ringStartNotCompared

    // Grants.
    /// Rows from before a grant are not sent again after it.
    case grantWithoutSequence
    /// The token of a back-filled row is the grant's sequence alone.
    case backfillTokenIncomplete
    /// Rows are back-filled before the indexes are complete to the grant.
    case backfillBeforeIndex
    /// A collector applies a grant only if it receives the principal's version of that sequence.
    case grantOnlyByItsVersion
    /// A new stream does not state that the principal has no grant.
    case absentGrantNotStated

    // Not mistakes: no walk finds a violation without these parts of the first design.
    /// R8: a member that restarts serves with its reserved counter, without a handshake.
    case startWithoutHandshake
    /// R8: the handshake reads the members' counters, but not their collectors' positions.
    case positionsNotExchanged
}
