package import Orchestration

/// Why the cluster did not do what was asked, in words for whoever asked: cause, then cure.
///
/// Who asked for something in particular says it in its own words where it can; this is what is left,
/// mostly where others were faster.
extension ClusterRefusal {
    package var sentence: String {
        switch self {
        case .refusedBefore:
            "The cluster refused this request when it first came. Look at how things are, and ask "
                + "anew."
        case .changedMeanwhile:
            "Somebody else changed it at the same time. Look at how it is now, and ask again."
        case .alreadyInitialised: "The cluster is initialized already."
        case .notInitialised:
            "This node is not part of a cluster: initialize one first (POST /clusterInit)."
        case .bucketExists: "A bucket of that name exists already: choose another name."
        case .bucketUnknown: "There is no such bucket any more: somebody deleted it."
        case .tooManyBuckets:
            "There are as many buckets as there may be: delete one, or raise maxBucketCount "
                + "(POST /internalSettings)."
        case .bucketBeingDeleted:
            "A bucket of that name is still being deleted, and some node has not said that it serves "
                + "it no more: ask again in a moment."
        case .flushRunning: "A bucket is being flushed just now: ask again when that is over."
        case .flushNotRunning: "The flush is over already."
        case .flushDisabled:
            "Flush is disabled for the bucket: set flushEnabled to 1 before you flush it."
        case .memoryQuotaExceeded:
            "The memory quotas of all buckets together would exceed the memory quota of a node. Lower "
                + "a bucket's quota, or raise memoryQuota (POST /pools/default)."
        case .rowsImpossible:
            "The cluster's nodes, or the bucket, changed while it was dealt out: ask again."
        default: sentenceOnNodes
        }
    }

    private var sentenceOnNodes: String {
        switch self {
        case .nodeExists:
            "A node of that name, or this very node, is part of the cluster already: rebalance it "
                + "out, or eject it, before it is added anew."
        case .nodeTooSmall:
            "A node has too little memory for the memory quota, which holds on every node. Lower "
                + "memoryQuota (POST /pools/default), or give the node more memory."
        case .nodeUnknown: "The cluster has no such node any more: somebody took it out."
        case .nodeNumbersUsedUp:
            "This cluster has had so many nodes that it has no number left for another: make a new "
                + "cluster."
        case .nodeInUse: "The node is active, or holds documents: rebalance it out first."
        case .onlyCopies:
            "Other nodes have no copy of some vBuckets that the node serves. Add replicas and "
                + "rebalance, or fail the node over without moving anything."
        case .nodeStateImpossible:
            "What the node is to the cluster does not allow that, or changed meanwhile: look at "
                + "/pools/default, and ask again where it still applies."
        case .nodeNotActive:
            "A node that takes part has been failed over, or left behind by a failover without a "
                + "quorum: say what becomes of it first (POST /controller/setRecoveryType, or "
                + "/controller/ejectNode)."
        case .lastActiveNode:
            "It is the last active node, and nobody would be left to serve: add another one, and "
                + "rebalance, first."
        case .groupUnknown:
            "There is no such server group any more, or two would have one name: look at "
                + "/pools/default/serverGroups."
        case .groupInUse: "There are nodes in the server group: move them to another one first."
        case .rebalanceRunning: "A rebalance is running: wait until it is over, or stop it first."
        case .rebalanceNotRunning: "The rebalance is over already."
        case .nodesMismatch:
            "The nodes named are not all that there are: look at /pools/default, and ask again."
        default: "The cluster refused it. Look at how things are, and ask again."
        }
    }
}
