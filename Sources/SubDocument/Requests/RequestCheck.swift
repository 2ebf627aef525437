internal import Bytes
internal import Vocabulary
package import Wire

/// Decides whether a sub-document request is valid for any document: flags, order, values, macros.
///
/// Couchbase Server refuses an invalid request as a whole, so its status has no path.
package struct RequestCheck {
    /// The features that the connection and the cluster allow.
    package struct Allowance: Sendable {
        /// The client agreed to attributes (HELLO 0x06), and all nodes can store them.
        package let attributes: Bool

        package init(attributes: Bool) {
            self.attributes = attributes
        }
    }

    private let request: SubDocumentRequest
    private let allowance: Allowance

    /// The status that refuses a request; nil if it is valid.
    package static func refusal(
        of request: SubDocumentRequest,
        hasCAS: Bool,
        _ allowance: Allowance
    ) -> Status? {
        RequestCheck(request: request, allowance: allowance).refusal(hasCAS: hasCAS)
    }

    private func refusal(hasCAS: Bool) -> Status? {
        if let status = documentRefusal(hasCAS: hasCAS) { return status }
        var (hasBodyPath, deletesDocument) = (false, false)
        for spec in request.specs {
            // A deletion is the only path of the body, and the last of all.
            if deletesDocument { return .subdocInvalidCombination }
            if let status = refusal(of: spec) { return status }
            let isAttribute = spec.flags.contains(.attribute)
            // Attributes come first: the paths of the body work on what is behind them.
            if isAttribute, hasBodyPath { return .subdocXattrInvalidOrder }
            if spec.operation == .deleteDocument {
                if hasBodyPath { return .subdocInvalidCombination }
                deletesDocument = true
            }
            if !isAttribute { hasBodyPath = true }
        }
        return nil
    }

    /// The refusal of the document flags, apart from what each operation allows.
    private func documentRefusal(hasCAS: Bool) -> Status? {
        let flags = request.documentFlags
        if flags.isSuperset(of: [.adds, .makesDocument]) { return .invalid }
        if flags.contains(.adds), hasCAS { return .invalid }
        switch request.form {
        case .single:
            guard flags.contains(.createsAsDeleted) else { return nil }
            return flags.isDisjoint(with: [.adds, .makesDocument]) ? .invalid : nil
        case .multi:
            guard flags.contains(.revives) else { return nil }
            let isValid = flags.contains(.accessesDeleted) && !flags.contains(.createsAsDeleted)
            return isValid ? nil : .invalid
        }
    }

    /// The refusal of one path.
    private func refusal(of spec: SubDocumentSpec) -> Status? {
        let rule = OperationRule(of: spec.operation)
        let isAttribute = spec.flags.contains(.attribute)
        let hasRightValue = rule.needsValue != spec.value.isEmpty
        guard rule.flags.isSuperset(of: spec.flags), !rule.needsAttribute || isAttribute,
            rule.documentFlags.isSuperset(of: request.documentFlags),
            spec.path.count <= DocumentPath.bytesMax,
            spec.path.isEmpty || !spec.operation.isWholeDocument
        else { return .invalid }
        if request.form == .single {
            let createsBody = request.documentFlags.contains(.createsAsDeleted) && !isAttribute
            guard hasRightValue, !createsBody else { return .invalid }
        }
        if isAttribute {
            if let status = attributeRefusal(of: spec) { return status }
        } else {
            if !spec.flags.isDisjoint(with: [.expandsMacros, .binary]) {
                return .subdocXattrInvalidFlags
            }
            if spec.path.isEmpty, !rule.allowsRoot { return .invalid }
        }
        return hasRightValue ? nil : .invalid
    }

    private func attributeRefusal(of spec: SubDocumentSpec) -> Status? {
        if spec.flags.isSuperset(of: [.binary, .expandsMacros]) { return .subdocXattrInvalidFlags }
        guard allowance.attributes else { return .notSupported }
        guard AttributeKey.isValid(spec.path) else { return .xattrInvalid }
        if spec.path[0] == UInt8(ascii: "$"), spec.operation.isMutation {
            return .subdocXattrCannotModifyVirtual
        }
        guard BinaryValue.isWellFormed(spec.value) else { return .xattrInvalid }
        guard spec.flags.contains(.expandsMacros) else { return nil }
        return Macro.parse(spec.value) == .unknown ? .subdocXattrUnknownMacro : nil
    }
}

/// The key that an attribute's path begins with.
enum AttributeKey {
    static func key(of path: ByteView) -> ByteView {
        let end = path.buffer.firstIndex {
            $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "[")
        }
        return path.slice(0, end ?? path.count)
    }

    /// Whether an attribute may have this path: the server checks the key, and the bytes of the rest.
    ///
    /// Punctuation and control characters at the start are reserved, except `_` of system attributes
    /// and `$` of virtual ones, which are no names by themselves.
    static func isValid(_ path: ByteView) -> Bool {
        let key = key(of: path)
        guard !key.isEmpty, key.count <= Limits.xattrKeyBytesMax else { return false }
        let isFirstValid =
            switch key[0] {
            case UInt8(ascii: "_"), UInt8(ascii: "$"): key.count > 1
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: " "), 0x80...:
                true
            default: false
            }
        return isFirstValid && !path.buffer.contains(0) && PathParser.isUTF8(path)
    }
}

extension SubDocumentSpec {
    /// Whether the path is one of a system attribute, which has privileges of its own.
    var namesSystemAttribute: Bool { flags.contains(.attribute) && XattrBlob.isSystemKey(path) }
}

/// The flags, value and path that an operation allows or needs.
struct OperationRule {
    let flags: PathFlags
    let documentFlags: DocumentFlags
    let needsValue: Bool
    let allowsRoot: Bool
    /// The path has to be one of an attribute.
    let needsAttribute: Bool

    private init(
        _ flags: PathFlags,
        _ documentFlags: DocumentFlags,
        needsValue: Bool = false,
        allowsRoot: Bool = false,
        needsAttribute: Bool = false
    ) {
        self.flags = flags
        self.documentFlags = documentFlags
        self.needsValue = needsValue
        self.allowsRoot = allowsRoot
        self.needsAttribute = needsAttribute
    }

    private static let reads: DocumentFlags = [.accessesDeleted, .revives, .readsReplica]
    private static let changes: DocumentFlags = [.accessesDeleted, .revives]
    private static let creates: DocumentFlags = changes.union([
        .makesDocument, .adds, .createsAsDeleted,
    ])

    init(of operation: SubDocumentOperation) {
        switch operation {
        case .getDocument: self.init([], Self.reads, allowsRoot: true)
        case .setDocument:
            self.init([], [.makesDocument, .adds], needsValue: true, allowsRoot: true)
        case .deleteDocument: self.init([], Self.changes, allowsRoot: true)
        case .get: self.init([.attribute, .binary], Self.reads)
        case .exists: self.init(.attribute, Self.reads)
        case .getCount: self.init(.attribute, Self.reads, allowsRoot: true)
        case .delete: self.init(.attribute, Self.changes)
        case .dictionaryAdd, .dictionaryUpsert: self.init(.all, Self.creates, needsValue: true)
        case .replace:
            self.init(
                [.attribute, .expandsMacros, .binary],
                Self.changes.union(.adds),
                needsValue: true
            )
        case .arrayPushLast, .arrayPushFirst:
            self.init(
                [.makesParents, .attribute, .expandsMacros],
                Self.creates,
                needsValue: true,
                allowsRoot: true
            )
        case .arrayInsert:
            self.init(
                [.attribute, .expandsMacros],
                Self.creates.subtracting(.makesDocument),
                needsValue: true
            )
        case .arrayAddUnique:
            self.init(
                [.makesParents, .attribute],
                Self.creates,
                needsValue: true,
                allowsRoot: true
            )
        case .counter: self.init([.makesParents, .attribute], Self.creates, needsValue: true)
        case .replaceBodyWithAttribute:
            self.init([.attribute, .binary], Self.changes, needsAttribute: true)
        }
    }
}
