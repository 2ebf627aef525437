internal import Bytes

/// A decoded sub-document request: one path (0xc5 to 0xcf, 0xd2, 0xd3) or up to 16 (0xd0, 0xd1).
///
/// Decoding checks the lengths, the numbers of operations and flags, and that lookups and mutations are
/// not mixed. Which flags fit which operation is decided by the module `SubDocument`.
///
/// - Borrows the frame, and allocates nothing: the paths are decoded again at each iteration.
package struct SubDocumentRequest {
    package enum Form: Sendable {
        case single
        case multi
    }

    package let form: Form
    package let isMutation: Bool
    /// In the protocol's format; 0 if the request has none, which removes the document's expiry.
    package private(set) var expiry: UInt32 = 0
    /// The document's flags; nil if the request has none.
    package private(set) var userFlags: UInt32?
    package private(set) var documentFlags: DocumentFlags = []
    package let specs: SubDocumentSpecSequence

    package enum Outcome {
        case decoded(SubDocumentRequest)
        case refused(Status)
    }

    private init(_ form: Form, isMutation: Bool, _ specs: SubDocumentSpecSequence) {
        self.form = form
        self.isMutation = isMutation
        self.specs = specs
    }

    /// Decodes a request with one of the sub-document opcodes.
    package static func decode(_ frame: Frame) -> Outcome {
        switch frame.opcode {
        case .subdocMultiLookup: decodeMulti(frame, isMutation: false)
        case .subdocMultiMutation: decodeMulti(frame, isMutation: true)
        default: decodeSingle(frame)
        }
    }

    /// Extras: path length 2, path flags 1, expiry 4 (mutations only), document flags 1 (both
    /// optional).
    ///
    /// The value is the path, then the operation's value.
    private static func decodeSingle(_ frame: Frame) -> Outcome {
        let extras = frame.extras
        guard let operation = SubDocumentOperation(rawValue: frame.header.opcodeByte),
            !operation.isWholeDocument, extras.count >= 3
        else { return .refused(.invalid) }
        var reader = ByteReader(frame.value)
        guard let path = reader.bytes(Int(extras.bigEndian(at: 0, as: UInt16.self))),
            PathFlags.all.rawValue | extras[2] == PathFlags.all.rawValue,
            operation.isMutation || extras.count <= 4
        else { return .refused(.invalid) }
        let spec = SubDocumentSpec(
            operation: operation,
            flags: PathFlags(rawValue: extras[2]),
            path: path,
            value: reader.rest
        )
        var request = SubDocumentRequest(
            .single,
            isMutation: operation.isMutation,
            SubDocumentSpecSequence(single: spec)
        )
        guard request.readOptions(extras.dropFirst(3)) else { return .refused(.invalid) }
        return .decoded(request)
    }

    private static func decodeMulti(_ frame: Frame, isMutation: Bool) -> Outcome {
        guard isMutation || frame.extras.count <= 1 else { return .refused(.invalid) }
        switch SubDocumentSpecSequence.checked(frame.value, isMutation: isMutation) {
        case .failure(let status): return .refused(status)
        case .success(let specs):
            var request = SubDocumentRequest(.multi, isMutation: isMutation, specs)
            guard request.readOptions(frame.extras) else { return .refused(.invalid) }
            return .decoded(request)
        }
    }

    /// Reads what follows in the extras: expiry 4, user flags 4 (only behind an expiry), document
    /// flags 1.
    ///
    /// - Returns: False if the length or a document flag does not exist.
    private mutating func readOptions(_ extras: ByteView) -> Bool {
        var reader = ByteReader(extras)
        if extras.count >= 4 { expiry = reader.bigEndian(UInt32.self) ?? 0 }
        if extras.count >= 8 { userFlags = reader.bigEndian(UInt32.self) }
        guard let bits = reader.bigEndian(UInt8.self) else { return reader.isAtEnd }
        documentFlags = DocumentFlags(rawValue: bits)
        return reader.isAtEnd && DocumentFlags.all.isSuperset(of: documentFlags)
    }
}

/// The paths of a request, in their order.
package struct SubDocumentSpecSequence: Sequence {
    /// The most paths of a request.
    package static let countMax = 16

    private let single: SubDocumentSpec?
    private let bytes: ByteView
    private let isMutation: Bool

    fileprivate init(single: SubDocumentSpec) {
        self.single = single
        bytes = .empty
        isMutation = single.operation.isMutation
    }

    private init(_ bytes: ByteView, isMutation: Bool) {
        single = nil
        self.bytes = bytes
        self.isMutation = isMutation
    }

    package enum Check {
        case success(SubDocumentSpecSequence)
        case failure(Status)
    }

    /// The paths in a request's value; a failure if their number, lengths, operations or flags are
    /// invalid.
    fileprivate static func checked(_ bytes: ByteView, isMutation: Bool) -> Check {
        var reader = ByteReader(bytes)
        var count = 0
        while !reader.isAtEnd {
            guard count < countMax else { return .failure(.subdocInvalidCombination) }
            guard let raw = next(&reader, isMutation: isMutation) else { return .failure(.invalid) }
            guard let operation = SubDocumentOperation(rawValue: raw.operation),
                operation.isMutation == isMutation
            else { return .failure(.subdocInvalidCombination) }
            guard PathFlags.all.rawValue | raw.flags == PathFlags.all.rawValue else {
                return .failure(.invalid)
            }
            count += 1
        }
        guard count > 0 else { return .failure(.subdocInvalidCombination) }
        return .success(SubDocumentSpecSequence(bytes, isMutation: isMutation))
    }

    package func makeIterator() -> Iterator {
        Iterator(single: single, reader: ByteReader(bytes), isMutation: isMutation)
    }

    package struct Iterator: IteratorProtocol {
        fileprivate var single: SubDocumentSpec?
        fileprivate var reader: ByteReader
        fileprivate let isMutation: Bool

        package mutating func next() -> SubDocumentSpec? {
            if let spec = single {
                single = nil
                return spec
            }
            guard let raw = SubDocumentSpecSequence.next(&reader, isMutation: isMutation) else {
                return nil
            }
            guard let operation = SubDocumentOperation(rawValue: raw.operation) else {
                preconditionFailure("the operations were checked")
            }
            return SubDocumentSpec(
                operation: operation,
                flags: PathFlags(rawValue: raw.flags),
                path: raw.path,
                value: raw.value
            )
        }
    }

    private struct Raw {
        let operation: UInt8
        let flags: UInt8
        let path: ByteView
        let value: ByteView
    }

    /// Reads one path: operation 1, flags 1, path length 2, in mutations value length 4, path, value.
    ///
    /// - Returns: Nil if it is truncated.
    private static func next(_ reader: inout ByteReader, isMutation: Bool) -> Raw? {
        guard let operation = reader.bigEndian(UInt8.self),
            let flags = reader.bigEndian(UInt8.self),
            let pathCount = reader.bigEndian(UInt16.self)
        else { return nil }
        var valueCount: UInt32 = 0
        if isMutation {
            guard let count = reader.bigEndian(UInt32.self) else { return nil }
            valueCount = count
        }
        guard let path = reader.bytes(Int(pathCount)), let value = reader.bytes(Int(valueCount))
        else { return nil }
        return Raw(operation: operation, flags: flags, path: path, value: value)
    }
}

extension SubDocumentRequest {
    /// Whether a path begins with the key of a virtual attribute.
    package var namesVirtualAttributes: Bool {
        specs.contains {
            $0.flags.contains(.attribute) && !$0.path.isEmpty && $0.path[0] == UInt8(ascii: "$")
        }
    }

    /// Whether a path's value is a macro.
    package var expandsMacros: Bool { specs.contains { $0.flags.contains(.expandsMacros) } }
}
