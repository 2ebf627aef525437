package import Bytes
package import Vocabulary

/// A message with which two nodes introduce themselves, as bytes.
///
/// The first bytes of a secured connection: the keys of both sides are proved already.
///
/// Layout: "DVNP", kind, version (UInt16), length of the rest (UInt16), the rest. The frame around a
/// message and a refusal of the reason `otherVersion` stay as they are in all versions, so that any two
/// versions can report the mismatch. A reader skips what follows the fields that it knows.
package enum PeerGreeting: Hashable, Sendable {
    case hello(Hello)
    case answer(PeerClaim)
    case refusal(Refusal)

    package struct Hello: Hashable, Sendable, CodedFields {
        /// A `NodeService.Connection`, or one of a later version.
        package var service: UInt8
        /// The node that the sender expects to have called; 0 if its number is not known.
        package var expected: NodeNumber
        package var claim: PeerClaim

        package init(service: UInt8, expected: NodeNumber, claim: PeerClaim) {
            self.service = service
            self.expected = expected
            self.claim = claim
        }

        package init() { self.init(service: 0, expected: NodeNumber(0), claim: PeerClaim()) }

        package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try coder.field(&service, "service")
            try coder.fixed(&expected, "expected node")
            try coder.field(&claim, "claim")
        }
    }

    package struct Refusal: Hashable, Sendable, CodedFields {
        package var reason: UInt8
        /// The refusing node's version or epoch, depending on the reason.
        package var detail: UInt64

        package init(reason: UInt8, detail: UInt64) {
            self.reason = reason
            self.detail = detail
        }

        package init() { self.init(reason: 0, detail: 0) }

        package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try coder.field(&reason, "reason")
            try coder.fixed(&detail, "detail")
        }
    }

    package static let headerCount = 9
    /// The longest message is a hello of some 170 bytes.
    package static let bytesMax = 512

    private static let magic: UInt32 = 0x4456_4e50

    package func append(version: UInt16, to output: ByteWriter) {
        let (kind, fields): (UInt8, any Coded) =
            switch self {
            case .hello(let hello): (1, hello)
            case .answer(let claim): (2, claim)
            case .refusal(let refusal): (4, refusal)
            }
        output.append(bigEndian: PeerGreeting.magic)
        output.append(kind)
        output.append(bigEndian: version)
        let lengthAt = output.count
        output.append(bigEndian: UInt16(0))
        var writer = FieldWriter(output)
        fields.write(to: &writer)
        output.replace(at: lengthAt, bigEndian: UInt16(output.count - lengthAt - 2))
    }
}

// MARK: Decoding

extension PeerGreeting {
    package enum Outcome: Sendable {
        /// The next step needs `needed` bytes in the buffer.
        case incomplete(needed: Int)
        case message(PeerGreeting, byteCount: Int)
        /// A message of another version; only its version can be read.
        case otherVersion(UInt16)
        /// Not a valid message.
        case invalid
    }

    /// Decodes the message at the start of `view` for a node of `version`.
    package static func next(in view: ByteView, version: UInt16) -> Outcome {
        for (index, byte) in [0x44, 0x56, 0x4e, 0x50].enumerated() where index < view.count {
            guard view[index] == byte else { return .invalid }
        }
        guard view.count >= headerCount else { return .incomplete(needed: headerCount) }
        let kind = view[4]
        let theirs = view.bigEndian(at: 5, as: UInt16.self)
        let length = Int(view.bigEndian(at: 7, as: UInt16.self))
        let byteCount = headerCount + length
        guard byteCount <= bytesMax else {
            return theirs == version ? .invalid : .otherVersion(theirs)
        }
        // A refusal reads the same in all versions.
        guard theirs == version || kind == 4 else { return .otherVersion(theirs) }
        guard view.count >= byteCount else { return .incomplete(needed: byteCount) }
        var reader = FieldReader(view.slice(headerCount, length))
        guard let message = try? PeerGreeting(kind, &reader) else { return .invalid }
        return .message(message, byteCount: byteCount)
    }

    private init(_ kind: UInt8, _ reader: inout FieldReader) throws(CodingFailure) {
        switch kind {
        case 1: self = .hello(try reader.payload())
        case 2: self = .answer(try reader.payload())
        case 4: self = .refusal(try reader.payload())
        default: throw reader.failure(.unknownKind(kind))
        }
    }
}
