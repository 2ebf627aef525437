package import Bytes
package import JSON
package import SyncWire

/// A document `_local/ID`, which is not replicated: a replicator's checkpoint.
///
/// - Its revision is `0-N`; N counts its versions.
package struct LocalDocument: Equatable, Sendable {
    package static let keyPrefix = "_local/"

    /// Whether a document of this id is a local one.
    package static func isID(_ id: String) -> Bool { id.hasPrefix(keyPrefix) }

    package let number: UInt64
    /// Its members without those that begin with `_`, in order of their names.
    package let members: [JSONValue.Member]

    init(number: UInt64, members: [JSONValue.Member]) {
        self.number = number
        self.members = members
    }

    package var revision: String { "0-\(number)" }

    package enum Outcome: Equatable, Sendable {
        case stored(LocalDocument)
        case deleted
        case refused(Refusal)
    }

    /// Decides a `PUT`.
    ///
    /// - Parameters:
    ///   - body: A JSON object. Its `_rev` names the version to replace unless `revision` does.
    ///   - revision: The version to replace, from a parameter or a message.
    ///   - existing: The stored version.
    /// - Returns: The version to store, or why there is none.
    package static func put(
        _ body: JSONValue,
        replacing revision: String? = nil,
        existing: LocalDocument?
    ) -> Outcome {
        guard let members = body.members else { return .refused(Refusal(400, "Bad JSON")) }
        if let refusal = refusal(ofReplacing: revision ?? body["_rev"]?.string, existing) {
            return .refused(refusal)
        }
        // Names are compared by bytes, as elsewhere.
        var last: [[UInt8]: JSONValue.Member] = [:]
        for member in members where !member.name.isEmpty && !member.name.utf8.starts(with: "_".utf8)
        {
            last[[UInt8](member.name.utf8)] = member
        }
        let kept = last.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map(\.value)
        return .stored(LocalDocument(number: (existing?.number ?? 0) + 1, members: kept))
    }

    /// Decides a `DELETE`.
    package static func delete(_ revision: String?, existing: LocalDocument?) -> Outcome {
        guard existing != nil else {
            return .refused(Refusal(404, "No previous revision to replace"))
        }
        return refusal(ofReplacing: revision, existing).map { .refused($0) } ?? .deleted
    }

    /// Writes the document as `GET` shows it; without `id`, without `_id` and `_rev`.
    package func write(to writer: inout JSONWriter, id: String? = nil) {
        writer.object { writer in
            if let id {
                writer.member("_id", Self.keyPrefix + id)
                writer.member("_rev", revision)
            }
            for member in members { writer.member(member.name, member.value) }
        }
    }

    /// The stored form: the members, and `_rev`.
    package var stored: [UInt8] {
        JSONWriter.text { writer in
            writer.object { writer in
                writer.member("_rev", revision)
                for member in members { writer.member(member.name, member.value) }
            }
        }
    }

    /// Nil if `bytes` are not what `stored` makes.
    package init?(stored bytes: ByteView) {
        guard let tree = JSONValue.parse(bytes), let all = tree.members, let first = all.first,
            first.name == "_rev", let text = first.value.string, text.hasPrefix("0-"),
            let number = UInt64(text.dropFirst(2))
        else { return nil }
        self.init(number: number, members: Array(all.dropFirst()))
    }

    /// Nil if `revision` is that of `existing`, or neither is there.
    private static func refusal(
        ofReplacing revision: String?,
        _ existing: LocalDocument?
    ) -> Refusal? {
        guard let existing else {
            return revision ?? "" == "" ? nil : Refusal(404, "No previous revision to replace")
        }
        return revision == existing.revision ? nil : Refusal(409, "Document update conflict")
    }
}
