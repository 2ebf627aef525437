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

    package struct Hello: Hashable, Sendable {
        /// A `PeerService`, or one of a later version.
        package var service: UInt8
        /// The node that the sender expects to have called; 0 if its number is not known.
        package var expected: NodeNumber
        package var claim: PeerClaim

        package init(service: UInt8, expected: NodeNumber, claim: PeerClaim) {
            self.service = service
            self.expected = expected
            self.claim = claim
        }
    }

    package struct Refusal: Hashable, Sendable {
        package var reason: UInt8
        /// The refusing node's version or epoch, depending on the reason.
        package var detail: UInt64

        package init(reason: UInt8, detail: UInt64) {
            self.reason = reason
            self.detail = detail
        }
    }

    package static let headerCount = 9
    /// The longest message is a hello of some 170 bytes.
    package static let bytesMax = 512

    private static let magic: UInt32 = 0x4456_4e50

    private var kind: UInt8 {
        switch self {
        case .hello: 1
        case .answer: 2
        case .refusal: 4
        }
    }

    package func append(version: UInt16, to output: ByteWriter) {
        output.append(bigEndian: PeerGreeting.magic)
        output.append(kind)
        output.append(bigEndian: version)
        let lengthAt = output.count
        output.append(bigEndian: UInt16(0))
        switch self {
        case .hello(let hello):
            output.append(hello.service)
            output.append(bigEndian: hello.expected.value)
            hello.claim.append(to: output)
        case .answer(let claim): claim.append(to: output)
        case .refusal(let refusal):
            output.append(refusal.reason)
            output.append(bigEndian: refusal.detail)
        }
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
        var reader = ByteReader(view.slice(headerCount, length))
        guard let message = read(kind, &reader) else { return .invalid }
        return .message(message, byteCount: byteCount)
    }

    private static func read(_ kind: UInt8, _ reader: inout ByteReader) -> PeerGreeting? {
        switch kind {
        case 1:
            guard let service = reader.bigEndian(UInt8.self),
                let expected = reader.bigEndian(UInt16.self), let claim = PeerClaim(&reader)
            else { return nil }
            return .hello(
                Hello(service: service, expected: NodeNumber(expected), claim: claim)
            )
        case 2: return PeerClaim(&reader).map { .answer($0) }
        case 4:
            guard let reason = reader.bigEndian(UInt8.self),
                let detail = reader.bigEndian(UInt64.self)
            else { return nil }
            return .refusal(Refusal(reason: reason, detail: detail))
        default: return nil
        }
    }
}
