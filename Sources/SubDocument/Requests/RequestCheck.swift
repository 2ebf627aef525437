internal import Bytes
internal import Vocabulary
package import Wire

/// Decides whether a sub-document request is valid for any document: flags, order, values, macros.
///
/// Couchbase Server refuses an invalid request as a whole, so its status has no path.
package struct RequestCheck {
    /// What the connection and the cluster allow.
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
        var (bodyPaths, hasWholeDocument, writesBody) = (0, false, false)
        for spec in request.specs {
            if let status = refusal(of: spec) { return status }
            let isAttribute = spec.flags.contains(.attribute)
            // Attributes come first: the paths of the body work on what is behind them.
            if isAttribute, bodyPaths > 0 { return .subdocXattrInvalidOrder }
            if !isAttribute { bodyPaths += 1 }
            if spec.operation.isWholeDocument { hasWholeDocument = true }
            if !isAttribute || spec.operation == .replaceBodyWithAttribute {
                writesBody = true
            }
        }
        if request.isMutation, hasWholeDocument, bodyPaths > 1 { return .subdocInvalidCombination }
        if writesBody, request.documentFlags.contains(.createsAsDeleted) {
            return .subdocDeletedCannotHaveValue
        }
        return nil
    }

    /// The refusal of the document flags.
    private func documentRefusal(hasCAS: Bool) -> Status? {
        let flags = request.documentFlags
        guard request.isMutation else {
            return flags.isSubset(of: [.accessesDeleted, .readsReplica]) ? nil : .invalid
        }
        if flags.contains(.readsReplica) || flags.isSuperset(of: [.adds, .makesDocument]) {
            return .invalid
        }
        if flags.contains(.adds), hasCAS { return .invalid }
        if flags.contains(.createsAsDeleted) {
            guard !flags.isDisjoint(with: [.adds, .makesDocument]) else { return .invalid }
            if !allowance.attributes { return .notSupported }
        }
        if flags.contains(.revives) {
            let needed: DocumentFlags = [.revives, .accessesDeleted]
            guard flags.isSuperset(of: needed), !flags.contains(.createsAsDeleted) else {
                return .invalid
            }
        }
        return nil
    }

    /// The refusal of one path.
    private func refusal(of spec: SubDocumentSpec) -> Status? {
        let rule = OperationRule(of: spec.operation)
        guard rule.flags.isSuperset(of: spec.flags) else { return .invalid }
        if rule.needsValue == spec.value.isEmpty { return .invalid }
        if spec.operation.isWholeDocument { return spec.path.isEmpty ? nil : .invalid }
        guard spec.flags.contains(.attribute) else {
            if !spec.flags.isDisjoint(with: [.expandsMacros, .binary]) {
                return .subdocXattrInvalidFlags
            }
            if spec.operation == .replaceBodyWithAttribute { return .invalid }
            return spec.path.isEmpty && !rule.allowsRoot ? .invalid : nil
        }
        return attributeRefusal(of: spec)
    }

    private func attributeRefusal(of spec: SubDocumentSpec) -> Status? {
        guard allowance.attributes else { return .notSupported }
        guard !spec.path.isEmpty else { return .invalid }
        let key = AttributeKey.key(of: spec.path)
        guard AttributeKey.isValid(key) else { return .xattrInvalid }
        if key[0] == UInt8(ascii: "$") {
            if spec.operation.isMutation { return .subdocXattrCannotModifyVirtual }
            if VirtualAttribute(key) == nil { return .subdocXattrUnknownVirtual }
        }
        guard spec.flags.contains(.expandsMacros) else { return nil }
        if spec.flags.contains(.binary) { return .invalid }
        switch Macro.parse(spec.value) {
        case .macro: return nil
        case .unknown: return .subdocXattrUnknownMacro
        case .unknownVirtual: return .subdocXattrUnknownVirtualMacro
        }
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

    /// Whether there may be an attribute with this key.
    ///
    /// Punctuation and control characters at the start are reserved, except `_` of system attributes
    /// and `$` of virtual ones.
    static func isValid(_ key: ByteView) -> Bool {
        guard !key.isEmpty, key.count <= Limits.xattrKeyBytesMax else { return false }
        return switch key[0] {
        case UInt8(ascii: "_"), UInt8(ascii: "$"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"), 0x80...:
            true
        default: false
        }
    }
}

/// What an operation allows in its path (kv.md 4).
struct OperationRule {
    let flags: PathFlags
    let needsValue: Bool
    let allowsRoot: Bool

    private init(_ flags: PathFlags, needsValue: Bool = false, allowsRoot: Bool = false) {
        self.flags = flags
        self.needsValue = needsValue
        self.allowsRoot = allowsRoot
    }

    init(of operation: SubDocumentOperation) {
        switch operation {
        case .getDocument, .deleteDocument: self.init([])
        case .setDocument: self.init([], needsValue: true)
        case .get: self.init([.attribute, .binary])
        case .exists, .delete: self.init(.attribute)
        case .getCount: self.init(.attribute, allowsRoot: true)
        case .dictionaryAdd, .dictionaryUpsert: self.init(.all, needsValue: true)
        case .replace: self.init([.attribute, .expandsMacros, .binary], needsValue: true)
        case .arrayPushLast, .arrayPushFirst:
            self.init(
                [.makesParents, .attribute, .expandsMacros],
                needsValue: true,
                allowsRoot: true
            )
        case .arrayInsert: self.init([.attribute, .expandsMacros], needsValue: true)
        case .arrayAddUnique:
            self.init([.makesParents, .attribute], needsValue: true, allowsRoot: true)
        case .counter: self.init([.makesParents, .attribute], needsValue: true)
        case .replaceBodyWithAttribute: self.init([.attribute, .binary])
        }
    }
}
