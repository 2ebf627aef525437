package import Orchestration
package import Vocabulary

/// Why a request of administration was not carried out, whatever its subject.
///
/// HTTPFrontend renders it (`Reply`); a new case is right only if the HTTP reply differs.
package enum AdministrationError: Error, Hashable, Sendable {
    /// Fields of the request are wrong; `_` is the request as a whole. A bucket has its summaries.
    case invalid([FieldError], BucketSummaries? = nil)
    /// A rule forbids it; with a sentence for the user, as in all cases with a text.
    case refused(String)
    /// The login lacks this permission.
    case forbidden(Permission)
    /// There is no such object.
    case unknown
    /// The object is not the version that the request names.
    case differs
    /// The state was changed meanwhile: the request must be checked again.
    case overtaken
    /// No rebalance can be planned.
    case unplannable(RebalanceFlaw)
    /// Another operation is running.
    case busy(String)
    /// Begun and still running, but longer than the caller waits.
    case late(String)
    /// Not agreed on, or not carried out; it may still be.
    case failed(String)

    static let stopping = AdministrationError.failed("The node is stopping.")
    /// Clients match these words.
    static let flushDisabled = AdministrationError.refused("Flush is disabled for the bucket")

    /// The cluster did not agree on the change.
    static func failed(_ error: ClusterError) -> AdministrationError {
        .failed("The cluster did not agree on it: \(error)")
    }
}

/// Why no rebalance can be planned.
package enum RebalanceFlaw: Hashable, Sendable {
    case noNodes
    /// The named nodes are not all nodes of the cluster.
    case mismatch
    case noNodesLeft
    /// A bucket that was named for delta recovery does not exist.
    case deltaImpossible
    /// Nodes to be failed over gracefully have the only copies of some vBuckets.
    case wouldLose
}

extension AdministrationError: CustomStringConvertible {
    /// A sentence for the user or an operator.
    package var description: String {
        switch self {
        case .invalid(let errors, _): errors.map(\.text).joined(separator: "; ")
        case .refused(let text), .busy(let text), .late(let text), .failed(let text): text
        case .forbidden(let permission): "The login lacks the permission \(permission.text)."
        case .unknown: "The object does not exist."
        case .differs, .overtaken: ClusterRefusal.changedMeanwhile.sentence
        case .unplannable(let flaw): "No rebalance can be planned: \(flaw)."
        }
    }
}

extension Result where Failure == AdministrationError {
    /// Waits for a request, for a caller that continues after either result.
    package init(
        of request: @autoclosure () async throws(AdministrationError) -> Success
    ) async {
        do throws(AdministrationError) {
            self = .success(try await request())
        } catch {
            self = .failure(error)
        }
    }
}
