package import Orchestration
internal import Vocabulary

/// A sentence for the user about each refusal: the cause, and what to do.
///
/// Requests with a more specific answer use their own words; these remain, mostly for conflicts with
/// requests that came first.
extension ClusterRefusal {
    package var sentence: String {
        switch self {
        case .refusedBefore:
            "The cluster refused this request when it was first sent. Check the current state and "
                + "send a new request."
        case .notPermitted:
            "The login lacks the permission that this change needs: its roles were changed at the same "
                + "time."
        case .changedMeanwhile: "Another request changed it at the same time. Reload and retry."
        case .alreadyInitialised: "The cluster is initialized already."
        case .notInitialised:
            "This node is not part of a cluster. Initialize one first (POST /clusterInit)."
        case .bucketExists: "A bucket with this name exists already. Choose another name."
        case .bucketUnknown: "The bucket does not exist any more: another request deleted it."
        case .tooManyBuckets:
            "The cluster has the maximum number of buckets. Delete one, or raise maxBucketCount "
                + "(POST /internalSettings)."
        case .bucketBeingDeleted:
            "A bucket with this name is still being deleted, and not all nodes have confirmed "
                + "that. Retry in a moment."
        case .flushRunning: "A bucket is being flushed. Retry when the flush has ended."
        case .flushNotRunning: "The flush has ended already."
        case .flushDisabled:
            "Flush is disabled for the bucket. Set flushEnabled to 1 before you flush it."
        case .memoryQuotaExceeded:
            "The memory quotas of all buckets together would exceed the memory quota of a node. "
                + "Lower a bucket's quota, or raise memoryQuota (POST /pools/default)."
        case .authorityUnknown:
            "There is no trusted CA with this id that was loaded. GET /pools/default/trustedCAs lists them."
        case .authoritiesTooLarge:
            "The certificates of all trusted CAs would have more than "
                + "\(ClusterState.authorityBytesMax) bytes. Delete those that are not used."
        case .rowsImpossible:
            "The cluster's nodes, or the bucket, changed while vBuckets were assigned to nodes. "
                + "Retry."
        default: sentenceOnDesignDocuments ?? sentenceOnUsers ?? sentenceOnNodes
        }
    }

    private var sentenceOnDesignDocuments: String? {
        switch self {
        case .designDocumentUnknown: "The bucket has no design document of this name."
        case .designDocumentTooLarge:
            "The design document, or its name, is too long. At most "
                + "\(Limits.designDocumentBytesMax) bytes are possible, and "
                + "\(Limits.designNameBytesMax) for the name."
        case .designDocumentsTooLarge:
            "The design documents of all buckets together would have more than "
                + "\(Limits.designDocumentsBytesMax) bytes. Delete documents that are not used."
        case .tooManyViews:
            "The buckets together would have more than \(Limits.viewsOfAllMax) views. Delete views "
                + "that are not used."
        default: nil
        }
    }

    private var sentenceOnUsers: String? {
        switch self {
        case .userUnknown: "The user does not exist, or another request deleted it."
        case .userExists:
            "The administrator or a local user has this name already. Choose another name."
        case .userImpossible:
            "The user's name is empty, longer than \(Limits.userIDBytesMax) bytes, or contains "
                + "control characters or \(UserNameFlaw.banned); or its full name is longer than "
                + "\(Limits.userNameBytesMax) bytes."
        case .tooManyUsers:
            "The cluster has the maximum number of local users (\(Limits.usersMax)), or they would "
                + "have more than \(Limits.usersBytesMax) bytes together. Delete users that are not "
                + "used."
        default: nil
        }
    }

    private var sentenceOnNodes: String {
        switch self {
        case .nodeExists:
            "A node with this name, or this node itself, is part of the cluster already. Rebalance "
                + "it out or eject it before you add it again."
        case .nodeTooSmall:
            "A node has too little memory for the memory quota, which applies to every node. Lower "
                + "memoryQuota (POST /pools/default), or give the node more memory."
        case .nodeUnknown: "The cluster does not have this node any more: it was removed."
        case .levelTooLow:
            "The node supports only a lower feature level than this cluster uses. Start the release of "
                + "the cluster's nodes there, or a later one."
        case .levelTooHigh:
            "Some node does not support that feature level. Upgrade all nodes first."
        case .nodeNumbersUsedUp:
            "All node numbers of this cluster are used up, so no node can be added. Create a new "
                + "cluster."
        case .nodeInUse: "The node is active, or holds documents. Rebalance it out first."
        case .onlyCopies:
            "No other node has a copy of some vBuckets that the node serves. Add replicas and "
                + "rebalance, or use a hard failover, which moves nothing."
        case .nodeStateImpossible:
            "The node's membership state does not allow this, or changed meanwhile. Check "
                + "/pools/default and retry."
        case .nodeNotActive:
            "A node of the rebalance was failed over, or left behind by a failover without a "
                + "quorum. Decide about it first (POST /controller/setRecoveryType or "
                + "/controller/ejectNode)."
        case .lastActiveNode:
            "It is the last active node, so no node would be left to serve. Add another node and "
                + "rebalance first."
        case .groupUnknown:
            "The server group does not exist any more, or two groups would have the same name. "
                + "Check /pools/default/serverGroups."
        case .groupInUse: "The server group has nodes. Move them to another group first."
        case .rebalanceRunning: "A rebalance is running. Wait until it has ended, or stop it first."
        case .rebalanceNotRunning: "The rebalance has ended already."
        case .nodesMismatch:
            "The named nodes are not all nodes of the cluster. Check /pools/default and retry."
        default: "The cluster refused the request. Check the current state and retry."
        }
    }
}
