package import Indexing
package import ScriptProcesses
package import Seams

/// The inputs, ports and results of a query run.
extension QueryRun {
    /// A checked query and the view that it reads.
    package struct Query: Sendable {
        package let bucket: Bucket
        /// By the view's current definition.
        package let current: Version
        /// By its previous definition; nil if that must not answer.
        package var previous: Version?
        /// Called if the current index has everything on all nodes that serve; on the run's lane.
        package var isReady: (@Sendable () -> Void)?
        /// Whether only the map's subset is read, as of a development view.
        package var usesSubset = false
        /// The memory of the plans' keys, which the query holds as long as it has them.
        package var keys: KeyMemory.Reservation?

        package init(of bucket: Bucket, _ current: Version) {
            self.bucket = bucket
            self.current = current
        }

        /// The indexes between which nodes choose.
        func choice(_ use: QueryCoordination.IndexUse) -> IndexChoice {
            var choice = current.index.choice
            guard let previous, use != .current else { return choice }
            choice.previous = previous.index.choice.current
            choice.usesPrevious = use == .previous
            return choice
        }
    }

    /// A query as one definition of its view has it.
    package struct Version: Sendable {
        package let plan: QueryPlan
        package let index: QueryRequest.IndexSelection
        package let reduction: Reduction
        /// - Parameters:
        ///   - plan: What nodes do.
        ///   - index: The definition's index.
        ///   - reduction: The definition's, if the plan has groups.
        package init(
            _ plan: QueryPlan,
            index: QueryRequest.IndexSelection,
            reduction: Reduction
        ) {
            if plan.merge.isGrouped, case .none = reduction {
                preconditionFailure("a query with groups is of a view with a reduction")
            }
            self.plan = plan
            self.index = index
            self.reduction = reduction
        }
    }

    package struct Bucket: Hashable, Sendable {
        package let uuid: String
        package let name: String

        package init(uuid: String, name: String) {
            self.uuid = uuid
            self.name = name
        }
    }

    /// How the partial values of a group become its value.
    package enum Reduction: Sendable {
        /// There are none: the query reads rows.
        case none
        case builtin(BuiltinReduction)
        /// By another reduction of the values (rereduce).
        case custom(ScriptFunction)
    }

    /// The node's services and limits that a run uses.
    package struct Dependencies: Sendable {
        let environment: Environment
        /// Of runs, and of what asks by them.
        let lane: any Lane
        let scripts: ScriptPool
        let ports: Ports
        var slots: QuerySlots
        package var keys = KeyMemory()
        package var latencies = QueryLatencies()

        /// The dependencies of all runs of a node; the owner of `lane` cancels them before it stops
        /// the lane.
        package init(
            environment: Environment,
            lane: any Lane,
            scripts: ScriptPool,
            ports: Ports,
            slots: QuerySlots = QuerySlots()
        ) {
            self.environment = environment
            self.lane = lane
            self.scripts = scripts
            self.ports = ports
            self.slots = slots
        }
    }

    /// The cluster, as a run reaches it.
    package struct Ports: Sendable {
        let nodes: any QueryNodes
        let maps: any ServingMapSource
        let documents: any DocumentLookup

        package init(
            nodes: any QueryNodes,
            maps: any ServingMapSource,
            documents: any DocumentLookup
        ) {
            self.nodes = nodes
            self.maps = maps
            self.documents = documents
        }
    }

    /// The slot of a query that has not begun; it is free again when the last reference is gone.
    package struct Place: Sendable {
        let slot: QuerySlots.Slot
        /// In milliseconds: when the query opens with what it has.
        let deadline: UInt64
    }

    /// The result of `admit`.
    package enum Admission: Sendable {
        case admitted(Place)
        /// The node coordinates as many queries as it may, and too many wait or the query did so until its
        /// deadline: the client retries.
        case busy
        /// This node does not have the bucket.
        case unknownBucket
    }

    /// The result of `beginNow`.
    package enum PromptBeginning: Sendable {
        /// The query has begun. If `whole` is nil, it may not be open yet.
        case begun(QueryRun)
        /// No slot is free, so the query must wait for one (`begin`); nothing has begun.
        case needsSlot
        /// This node does not have the bucket.
        case unknownBucket
    }

    /// The result of `begin`.
    package enum Beginning: Sendable {
        /// All nodes have started, failed or not answered in time.
        case open(QueryRun)
        /// The same as `Admission.busy`.
        case busy
        /// This node does not have the bucket.
        case unknownBucket
    }

    /// A part of the answer.
    package enum Part: Equatable, Sendable {
        /// The next bytes of the JSON text.
        case bytes([UInt8])
        /// The answer is complete; `isPartial` if rows are missing, as its `errors` state.
        case end(isPartial: Bool)
    }
}
