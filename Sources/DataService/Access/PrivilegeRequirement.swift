internal import Vocabulary
internal import Wire

/// The privileges that a command needs in the selected bucket.
///
/// They are those that Couchbase's KV engine requires of the same opcode.
struct PrivilegeRequirement: Hashable, Sendable {
    let all: Privileges
    /// Suffices instead of `all`; equal to it if there is no alternative.
    let alternative: Privileges

    static let none = PrivilegeRequirement([])

    init(_ all: Privileges, or alternative: Privileges? = nil) {
        self.all = all
        self.alternative = alternative ?? all
    }

    @inline(__always)
    func isMet(by held: Privileges) -> Bool {
        held.isSuperset(of: all) || held.isSuperset(of: alternative)
    }

    /// The requirement in words: "Read and Upsert", "Insert or Upsert".
    var text: String {
        let first = all.names.joined(separator: " and ")
        return all == alternative
            ? first : first + " or " + alternative.names.joined(separator: " and ")
    }

    /// The requirement of an opcode in its loud form.
    ///
    /// Commands about the session need nothing: every login may send them. DCP_CONTROL, DCP_NOOP and
    /// DCP_BUFFER_ACKNOWLEDGEMENT need an opened producer, and opening one needs DcpProducer.
    init(of opcode: Opcode) {
        switch opcode {
        case .get, .getKey, .getReplica, .getLocked, .unlock, .getFailoverLog, .getRandomKey:
            self.init(.read)
        case .set, .replace, .append, .prepend, .touch: self.init(.upsert)
        case .add: self.init(.insert, or: .upsert)
        // The answer contains the document, or its number.
        case .increment, .decrement, .getAndTouch, .getAndTouchKey, .subdocCounter:
            self.init([.read, .upsert])
        case .delete: self.init(.delete)
        case .setWithMeta, .addWithMeta, .deleteWithMeta: self.init(.metaWrite)
        case .getMeta, .observe, .observeSeqno, .getAllVBucketSeqnos: self.init(.metaRead)
        case .tapConnect, .dcpOpen, .dcpAddStream, .dcpCloseStream, .dcpStreamRequest,
            .dcpGetFailoverLog:
            self.init(.dcpProducer)
        case .stat: self.init(.stats)
        case .flush: self.init(.flush)
        case .subdocGet, .subdocExists, .subdocGetCount, .subdocMultiLookup: self.init(.read)
        case .subdocDictionaryAdd, .subdocDictionaryUpsert, .subdocDelete, .subdocReplace,
            .subdocArrayPushLast, .subdocArrayPushFirst, .subdocArrayInsert,
            .subdocArrayAddUnique, .subdocReplaceBodyWithXattr, .subdocMultiMutation:
            self.init(.upsert)
        default: self = .none
        }
    }
}

extension Privileges {
    /// The names of Couchbase's KV engine, in the order of the bits.
    var names: [String] {
        let names: [(Privileges, String)] = [
            (.read, "Read"), (.insert, "Insert"), (.upsert, "Upsert"), (.delete, "Delete"),
            (.metaRead, "MetaRead"), (.metaWrite, "MetaWrite"), (.dcpProducer, "DcpProducer"),
            (.stats, "SimpleStats"), (.flush, "BucketManagement"),
            (.systemXattrRead, "SystemXattrRead"), (.systemXattrWrite, "SystemXattrWrite"),
        ]
        return names.filter { contains($0.0) }.map(\.1)
    }
}
