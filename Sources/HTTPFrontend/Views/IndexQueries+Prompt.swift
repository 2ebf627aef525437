internal import Bytes
internal import ViewService

/// Queries that begin on the thread of their client's connection.
///
/// Nearly every query is short, of rows that this node has, and needs nothing that must be awaited: its
/// answer is whole when this returns.
extension IndexQueries {
    package func beginNow(_ request: ViewRequest) -> ViewQueryBeginning {
        do throws(ViewRefusal) {
            // First: it may open the index service, which has the views.
            let obstacle = node.obstacle()
            let found = lookUp(request)
            guard isEnough(found, for: request) else { return .mustWait }
            let checked = try check(request, found, obstacle: obstacle)
            guard node.indexes() != nil else {
                throw .unavailable("The node is starting or stopping")
            }
            // The query does not wait for its slot, so the view is not looked up again.
            guard
                var query = query(
                    checked.query,
                    of: checked.view,
                    bucket: checked.bucket,
                    for: request
                )
            else { throw .changedView }
            query.keys = checked.keys
            switch QueryRun.beginNow(query, checked.dependencies) {
            case .begun(let run):
                if let text = run.whole {
                    run.cancel()
                    return .whole(text)
                }
                return .begun(BegunRun(run))
            case .needsSlot: return .mustWait
            case .unknownBucket: throw .missing("missing")
            }
        } catch {
            return .refused(error)
        }
    }

    /// A run that is not complete; cancelled unless its outcome is awaited.
    private final class BegunRun: BegunViewQuery {
        private let run: QueryRun
        private let isAwaited = Guarded(false)

        init(_ run: QueryRun) {
            self.run = run
        }

        deinit {
            if !isAwaited.withLock({ $0 }) { run.cancel() }
        }

        func outcome() async -> ViewQueryOutcome {
            isAwaited.withLock { $0 = true }
            await run.awaitOpening()
            return IndexQueries.outcome(of: run)
        }
    }
}

// MARK: Refusals

extension ViewRefusal {
    /// A refusal by one of the reasons of Couchbase Server, which clients compare.
    static func missing(_ reason: String) -> ViewRefusal {
        ViewRefusal(status: 404, error: "not_found", reason: reason)
    }

    static var busy: ViewRefusal {
        unavailable(
            "This node carries out \(QuerySlots.countMax) view queries already, and none ended"
                + " in time. Retry later."
        )
    }

    static var lacksKeyMemory: ViewRefusal {
        unavailable(
            "The keys of running view queries use the memory that the node has for them. Retry later,"
                + " or send `keys` in several requests one after the other."
        )
    }

    static var changedView: ViewRefusal {
        unavailable("The view was changed meanwhile. Retry the query.")
    }

    static func unavailable(_ reason: String) -> ViewRefusal {
        ViewRefusal(
            status: 503,
            error: "service_unavailable",
            reason: reason,
            retryAfterSeconds: 1
        )
    }
}
