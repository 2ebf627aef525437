package import Bytes
package import Vocabulary

/// A message of the handshake between nodes, as bytes.
///
/// `PeerHandshake` computes and checks the proofs.
///
/// Layout: "DVNP", kind, version (UInt16), length of the rest (UInt16), the rest, whose last 32
/// bytes are a proof (zeros where nothing can be proved). The frame around a message and a refusal
/// of the reason `otherVersion` stay as they are in all versions, so that any two versions can report
/// the mismatch. A reader skips what follows the fields that it knows; the proof covers the skipped
/// bytes as well.
package enum PeerGreeting: Hashable, Sendable {
    case hello(Hello)
    case answer(Answer)
    case finish
    case refusal(Refusal)

    package struct Hello: Hashable, Sendable {
        /// A `PeerService`, or one of a later version.
        package var service: UInt8
        /// The node that the sender expects to have called; 0 if its number is not known.
        package var expected: NodeNumber
        package var claim: PeerClaim
        /// 32 random bytes.
        package var nonce: [UInt8]
        /// An X25519 public key, generated for this connection.
        package var key: [UInt8]

        package init(
            service: UInt8,
            expected: NodeNumber,
            claim: PeerClaim,
            nonce: [UInt8],
            key: [UInt8]
        ) {
            self.service = service
            self.expected = expected
            self.claim = claim
            self.nonce = nonce
            self.key = key
        }
    }

    package struct Answer: Hashable, Sendable {
        package var claim: PeerClaim
        package var nonce: [UInt8]
        package var key: [UInt8]

        package init(claim: PeerClaim, nonce: [UInt8], key: [UInt8]) {
            self.claim = claim
            self.nonce = nonce
            self.key = key
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

    /// Bytes of a nonce, of a key, of a proof.
    package static let partCount = 32
    package static let headerCount = 9
    /// The longest message is a hello of some 270 bytes.
    package static let bytesMax = 512

    private static let magic: UInt32 = 0x4456_4e50

    private var kind: UInt8 {
        switch self {
        case .hello: 1
        case .answer: 2
        case .finish: 3
        case .refusal: 4
        }
    }

    /// Appends everything but the proof: the bytes that the proof covers.
    package func appendWithoutProof(version: UInt16, to output: ByteWriter) {
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
            output.append(hello.nonce)
            output.append(hello.key)
        case .answer(let answer):
            answer.claim.append(to: output)
            output.append(answer.nonce)
            output.append(answer.key)
        case .finish: break
        case .refusal(let refusal):
            output.append(refusal.reason)
            output.append(bigEndian: refusal.detail)
        }
        let length = output.count - lengthAt - 2 + PeerGreeting.partCount
        output.replace(at: lengthAt, bigEndian: UInt16(length))
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
        guard length >= partCount, byteCount <= bytesMax else {
            return theirs == version ? .invalid : .otherVersion(theirs)
        }
        // A refusal reads the same in all versions.
        guard theirs == version || kind == 4 else { return .otherVersion(theirs) }
        guard view.count >= byteCount else { return .incomplete(needed: byteCount) }
        var reader = ByteReader(view.slice(headerCount, length - partCount))
        guard let message = read(kind, &reader) else { return .invalid }
        return .message(message, byteCount: byteCount)
    }

    private static func read(_ kind: UInt8, _ reader: inout ByteReader) -> PeerGreeting? {
        switch kind {
        case 1:
            guard let service = reader.bigEndian(UInt8.self),
                let expected = reader.bigEndian(UInt16.self), let claim = PeerClaim(&reader),
                let nonce = reader.bytes(partCount), let key = reader.bytes(partCount)
            else { return nil }
            let hello = Hello(
                service: service,
                expected: NodeNumber(expected),
                claim: claim,
                nonce: nonce.bytes,
                key: key.bytes
            )
            return .hello(hello)
        case 2:
            guard let claim = PeerClaim(&reader), let nonce = reader.bytes(partCount),
                let key = reader.bytes(partCount)
            else { return nil }
            return .answer(Answer(claim: claim, nonce: nonce.bytes, key: key.bytes))
        case 3: return .finish
        case 4:
            guard let reason = reader.bigEndian(UInt8.self),
                let detail = reader.bigEndian(UInt64.self)
            else { return nil }
            return .refusal(Refusal(reason: reason, detail: detail))
        default: return nil
        }
    }
}
