package import Bytes
internal import JSON

/// The filter of a stream request: JSON that names what a client of collections selects.
///
/// Every document is in the default collection. Gateways of the releases from 3.1 on select it by its
/// number, also on a connection that was granted no collections, so a filter that selects it is
/// accepted and selects all changes. One that names another collection or scope is refused.
package enum StreamFilter {
    /// Why a filter is refused.
    ///
    /// - Parameter filter: The value of the request.
    /// - Returns: A sentence; nil if the filter is empty or selects all changes.
    package static func refusal(of filter: ByteView) -> String? {
        guard !filter.isEmpty else { return nil }
        guard case .object(let members) = JSONValue.parse(filter) else {
            return "The filter of a stream has to be a JSON object."
        }
        guard let first = members.first(where: { !selectsAll($0) }) else { return nil }
        return "Filters of streams need collections, which are not supported: \(first.name)."
    }

    private static func selectsAll(_ member: JSONValue.Member) -> Bool {
        // Numbers are hexadecimal text; that of the default scope, too, is 0.
        let zero = JSONValue.string("0")
        return switch member.name {
        // Without an effect: a consumer that lacks purged deletions rolls back to zero.
        case "purge_seqno": true
        case "collections": member.value == .array([zero])
        case "scope", "uid": member.value == zero
        default: false
        }
    }
}
