internal import Vocabulary
internal import Wire

/// The description of an opcode: the one table of commands.
///
/// Lengths are checked here once, so that commands rely on them. An opcode without an entry is not
/// supported.
struct Command {
    enum Part: UInt8 {
        case none
        case some
        case any
    }

    /// The login that a command needs.
    enum Access: UInt8 {
        /// None: commands that precede a login.
        case anyConnection
        /// A login.
        case user
        /// A login and a selected bucket.
        case bucketUser
    }

    /// The loud form of the opcode.
    let opcode: Opcode
    let isQuiet: Bool
    let isMutation: Bool
    /// Accepts a durability requirement.
    let isDurable: Bool
    /// Concerns one document of one vBucket.
    let isKeyed: Bool
    /// Changes the login, the bucket or the features, or ends the connection.
    let changesSession: Bool
    let access: Access
    /// The privileges that the client needs in the selected bucket.
    let requirement: PrivilegeRequirement
    /// Bit n: extras of n bytes are accepted.
    let extras: UInt64
    let key: Part
    let value: Part

    @inline(__always)
    func fits(_ header: FrameHeader) -> Bool {
        header.extrasCount < 64 && extras >> UInt64(header.extrasCount) & 1 == 1
            && Command.fits(header.keyCount, key) && Command.fits(header.valueCount, value)
            && header.keyCount <= Limits.keyBytesMax
    }

    @inline(__always)
    private static func fits(_ count: Int, _ part: Part) -> Bool {
        switch part {
        case .none: count == 0
        case .some: count > 0
        case .any: true
        }
    }

    // MARK: The table

    private struct Shape {
        let extras: [Int]
        let key: Part
        let value: Part
        let access: Access
    }

    /// 256 entries, by opcode number.
    static let table: [Command?] = (0..<256).map { number in
        guard let opcode = Opcode(rawValue: UInt8(number)) else { return nil }
        let loud = opcode.loud
        guard let shape = document(loud) ?? subDocument(loud) ?? other(loud) else { return nil }
        return Command(
            opcode: loud,
            isQuiet: opcode.isQuiet,
            isMutation: opcode.isMutation,
            isDurable: [
                .set, .add, .replace, .delete, .increment, .decrement, .append, .prepend,
            ].contains(loud) || subDocument(loud) != nil && loud.isMutation,
            isKeyed: document(loud) != nil || subDocument(loud) != nil,
            changesSession: [.hello, .saslAuth, .saslStep, .selectBucket, .quit].contains(loud),
            access: shape.access,
            requirement: PrivilegeRequirement(of: loud),
            extras: shape.extras.reduce(0) { $0 | 1 << UInt64($1) },
            key: shape.key,
            value: shape.value
        )
    }

    /// Commands on one document.
    private static func document(_ opcode: Opcode) -> Shape? {
        func shape(_ extras: [Int], value: Part = .none) -> Shape {
            Shape(extras: extras, key: .some, value: value, access: .bucketUser)
        }
        return switch opcode {
        case .get, .getKey, .getReplica, .delete, .unlock: shape([0])
        case .set, .add, .replace: shape([8], value: .any)
        case .increment, .decrement: shape([20])
        case .append, .prepend: shape([0], value: .any)
        case .touch, .getAndTouch, .getAndTouchKey: shape([4])
        case .getLocked: shape([0, 4])
        case .getMeta: shape([0, 1])
        case .setWithMeta, .addWithMeta, .deleteWithMeta:
            shape(WithMetaExtras.counts, value: .any)
        default: nil
        }
    }

    /// Commands on parts of one document; `SubDocumentRequest` checks their values.
    private static func subDocument(_ opcode: Opcode) -> Shape? {
        func shape(_ extras: [Int]) -> Shape {
            Shape(extras: extras, key: .some, value: .any, access: .bucketUser)
        }
        return switch opcode {
        case .subdocGet, .subdocExists, .subdocGetCount: shape([3, 4])
        case .subdocDictionaryAdd, .subdocDictionaryUpsert, .subdocDelete, .subdocReplace,
            .subdocArrayPushLast, .subdocArrayPushFirst, .subdocArrayInsert,
            .subdocArrayAddUnique, .subdocCounter, .subdocReplaceBodyWithXattr:
            shape([3, 4, 7, 8, 11, 12])
        case .subdocMultiLookup: shape([0, 1])
        case .subdocMultiMutation: shape([0, 1, 4, 5, 8, 9])
        default: nil
        }
    }

    private static func shape(
        _ access: Access,
        extras: [Int] = [0],
        key: Part = .none,
        value: Part = .none
    ) -> Shape {
        Shape(extras: extras, key: key, value: value, access: access)
    }

    /// Commands of the change protocols (DCP and TAP) that a client sends to a producer.
    private static func changes(_ opcode: Opcode) -> Shape? {
        switch opcode {
        case .tapConnect: shape(.bucketUser, extras: [0, 4], key: .any, value: .any)
        case .dcpOpen: shape(.bucketUser, extras: [8], key: .some)
        case .dcpAddStream: shape(.bucketUser, extras: [4])
        // A client that has not read the ends of its streams sends these after the deletion of its
        // bucket, and awaits no response.
        case .dcpBufferAcknowledgement: shape(.user, extras: [4])
        case .dcpNoop: shape(.user)
        case .dcpCloseStream, .dcpGetFailoverLog, .getFailoverLog: shape(.bucketUser)
        case .dcpStreamRequest: shape(.bucketUser, extras: [48], value: .any)
        case .dcpControl: shape(.bucketUser, key: .some, value: .any)
        default: nil
        }
    }

    /// All other commands.
    private static func other(_ opcode: Opcode) -> Shape? {
        switch opcode {
        case .quit, .noop, .version, .saslListMechanisms: shape(.anyConnection)
        case .hello: shape(.anyConnection, key: .any, value: .any)
        case .getErrorMap: shape(.anyConnection, value: .some)
        case .saslAuth, .saslStep: shape(.anyConnection, key: .some, value: .any)
        case .verbosity: shape(.user, extras: [4])
        case .selectBucket: shape(.user, key: .some)
        case .getClusterConfig: shape(.user, extras: [0, 16])
        case .stat: shape(.bucketUser, key: .any, value: .any)
        case .getRandomKey: shape(.bucketUser, extras: [0, 4, 5])
        case .getAllVBucketSeqnos: shape(.bucketUser, extras: [0, 4, 8])
        case .observe, .observeSeqno: shape(.bucketUser, value: .some)
        case .flush: shape(.bucketUser, extras: [0, 4])
        case .collectionsGetManifest: shape(.bucketUser)
        default: changes(opcode)
        }
    }
}

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
