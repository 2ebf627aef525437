package import Bytes
internal import Crypto

/// Seals and opens the records of one connection between nodes: AES-256-GCM.
///
/// A record is its length (UInt32: content and tag), the sealed content, a tag of 16 bytes; the
/// length is authenticated with it. The nonce is not sent: both sides count.
///
/// - Each direction has its own key, so a record sent back to its sender does not open.
/// - The count is in the nonce, so a record that comes twice, late or not at all ends the
///   connection at the next one.
/// - A key seals at most 2^32 records: far below where GCM gets weak.
package struct PeerCipher: Sendable {
    /// Bytes of content that a record may have; we fill it.
    package static let recordBytesMax = 256 << 10
    package static let headerCount = 4
    package static let tagCount = 16
    static let nonceCount = 12

    package enum Opening {
        /// Fewer than `needed` bytes are here.
        case incomplete(needed: Int)
        /// The content went to the reader; the next record begins behind `byteCount` bytes.
        case opened(byteCount: Int)
        /// A record that the other side did not seal, or not now: close.
        case broken
    }

    /// A key and what it was used for.
    struct Direction: Sendable {
        let key: SymmetricKey
        let nonce: [UInt8]
        var count: UInt64 = 0

        init(key: SymmetricKey, nonce: [UInt8]) {
            self.key = key
            self.nonce = nonce
        }

        var isWornOut: Bool { count >= 1 << 32 }

        /// The nonce of the next record.
        func nextNonce() -> AES.GCM.Nonce {
            var bytes = nonce
            for place in 0..<8 {
                bytes[4 + place] ^= UInt8(truncatingIfNeeded: count >> (56 - 8 * UInt64(place)))
            }
            guard let nonce = try? AES.GCM.Nonce(data: bytes) else {
                preconditionFailure("a nonce has 12 bytes")
            }
            return nonce
        }
    }

    private var sealing: Direction
    private var opening: Direction

    init(sealing: Direction, opening: Direction) {
        self.sealing = sealing
        self.opening = opening
    }

    /// True after 2^32 records: the connection has to end.
    package var isWornOut: Bool { sealing.isWornOut || opening.isWornOut }

    /// Appends `content` in as many records as it needs.
    package mutating func seal(_ content: ByteView, to output: ByteWriter) {
        var rest = content
        while !rest.isEmpty {
            let part = rest.slice(0, min(rest.count, PeerCipher.recordBytesMax))
            sealRecord(part, to: output)
            rest = rest.dropFirst(part.count)
        }
    }

    private mutating func sealRecord(_ content: ByteView, to output: ByteWriter) {
        output.reserve(PeerCipher.headerCount + content.count + PeerCipher.tagCount)
        let header = UInt32(content.count + PeerCipher.tagCount)
        output.append(bigEndian: header)
        let sealed = try? AES.GCM.seal(
            content.buffer,
            using: sealing.key,
            nonce: sealing.nextNonce(),
            authenticating: PeerCipher.bytes(of: header)
        )
        guard let box = sealed?.combined else {
            preconditionFailure("sealing cannot fail with a right key and nonce")
        }
        sealing.count += 1
        PeerCipher.withBytes(of: box) { output.append($0.dropFirst(PeerCipher.nonceCount)) }
    }

    /// Opens the record at the front of `input` and shows `read` its content.
    package mutating func open(_ input: ByteView, _ read: (ByteView) -> Void) -> Opening {
        guard input.count >= PeerCipher.headerCount else {
            return .incomplete(needed: PeerCipher.headerCount)
        }
        let header = input.bigEndian(at: 0, as: UInt32.self)
        let count = Int(header)
        // An empty record says nothing, so nobody sends one.
        guard count > PeerCipher.tagCount,
            count <= PeerCipher.recordBytesMax + PeerCipher.tagCount
        else { return .broken }
        let byteCount = PeerCipher.headerCount + count
        guard input.count >= byteCount else { return .incomplete(needed: byteCount) }
        let tagAt = byteCount - PeerCipher.tagCount
        let box = try? AES.GCM.SealedBox(
            nonce: opening.nextNonce(),
            ciphertext: input.slice(PeerCipher.headerCount, count - PeerCipher.tagCount).buffer,
            tag: input.dropFirst(tagAt).slice(0, PeerCipher.tagCount).buffer
        )
        let opened = box.flatMap { box in
            try? AES.GCM.open(
                box,
                using: opening.key,
                authenticating: PeerCipher.bytes(of: header)
            )
        }
        guard let opened else { return .broken }
        opening.count += 1
        PeerCipher.withBytes(of: opened, read)
        return .opened(byteCount: byteCount)
    }

    private static func bytes(of header: UInt32) -> [UInt8] {
        withUnsafeBytes(of: header.bigEndian) { [UInt8]($0) }
    }

    /// The package's results come in a type of Foundation, which is not imported here; as a
    /// collection they show their memory all the same.
    private static func withBytes(of data: some Sequence<UInt8>, _ read: (ByteView) -> Void) {
        let isShown: Void? = data.withContiguousStorageIfAvailable {
            read(ByteView(UnsafeRawBufferPointer($0)))
        }
        if isShown == nil { [UInt8](data).withUnsafeBytes { read(ByteView($0)) } }
    }
}
