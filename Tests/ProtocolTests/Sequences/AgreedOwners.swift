/// An agreed version of the map: the owners, the chains and the members.
struct AgreedOwners {
    /// The nodes that hold a copy of the bucket and are not failed over.
    var members = Members()
    /// The revision with which each node became a member.
    var memberSince: [4 of Int16]
    var owner: [3 of Int8]
    /// The revision with which each vBucket's owner was chosen.
    var fence: [3 of Int16]
    /// The nodes whose copies count for the majority, with the owner.
    var chain: [3 of Members]

    init() {
        memberSince = .init(repeating: 0)
        owner = .init(repeating: 0)
        fence = .init(repeating: 0)
        chain = .init(repeating: Members())
    }
}

/// A position through which a node's vBuckets are complete: the mark, and the seqnos that belong
/// to it.
struct Closing {
    var mark: Int32 = 0
    /// By vBucket; a fence of -1 means that the vBucket is not contained.
    var fence: [3 of Int16]
    var end: [3 of Int16]

    init() {
        fence = .init(repeating: -1)
        end = .init(repeating: 0)
    }
}

/// A closing pass of a node: from its mark to the moment when everything below it was sent.
struct Pass {
    var mark: Int32 = 0
    var revision: Int16 = 0
    /// The high seqnos are noted; before, only the counter is raised.
    var isNoted = false
    /// The seqno of each vBucket that must be visible; it grows when an outstanding prepare ends.
    var closing = Closing()
    /// By collector: the highest number of a stream that was opened before the pass.
    var opened: [4 of Int16]

    init() { opened = .init(repeating: 0) }
}
