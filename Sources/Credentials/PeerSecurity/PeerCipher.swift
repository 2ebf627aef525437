package import Bytes
internal import Crypto

/// Seals and opens the records of one connection between nodes: AES-256-GCM.
///
/// A record is its length (UInt32: content and tag), the sealed content, and a tag of 16 bytes. The
/// tag also authenticates the length. The nonce is not sent: both sides count records.
///
/// - Each direction has its own key, so a record that is reflected to its sender does not open.
/// - The count is part of the nonce, so the first record after a repeated, reordered or missing one
///   does not open, which ends the connection.
/// - A key seals at most 2^32 records, far fewer than weaken GCM.
package struct PeerCipher: Sendable {
    /// Maximal size of a record's content in bytes.
    ///
    /// The sender fills each record but the last.
    package static let recordBytesMax = 256 << 10
    package static let headerCount = 4
    package static let tagCount = 16
    static let nonceCount = 12

    package enum Opening {
        /// The record, or its length, needs `needed` bytes in all.
        case incomplete(needed: Int)
        /// The content was passed to the reader; the next record begins after `byteCount` bytes.
        case opened(byteCount: Int)
        /// The other side did not seal this record, or not as the next one: close the connection.
        case broken
    }

    /// The key of one direction, and the number of records it was used for.
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

    /// True after 2^32 records in one direction: the connection has to end.
    package var isWornOut: Bool { sealing.isWornOut || opening.isWornOut }

    /// Appends `content` to `output`, in as many records as needed; none if it is empty.
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
            preconditionFailure("sealing cannot fail with a valid key and nonce")
        }
        sealing.count += 1
        PeerCipher.withBytes(of: box) { output.append($0.dropFirst(PeerCipher.nonceCount)) }
    }

    /// Opens the record at the front of `input` and passes its content to `read`.
    package mutating func open(_ input: ByteView, _ read: (ByteView) -> Void) -> Opening {
        guard input.count >= PeerCipher.headerCount else {
            return .incomplete(needed: PeerCipher.headerCount)
        }
        let header = input.bigEndian(at: 0, as: UInt32.self)
        let count = Int(header)
        // No node sends an empty record.
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

    /// Passes the bytes of a result of swift-crypto to `read` without a copy where possible.
    ///
    /// The results have a Foundation type, which is not imported here, but as a collection they
    /// give access to their memory.
    private static func withBytes(of data: some Sequence<UInt8>, _ read: (ByteView) -> Void) {
        let isShown: Void? = data.withContiguousStorageIfAvailable {
            read(ByteView(UnsafeRawBufferPointer($0)))
        }
        if isShown == nil { [UInt8](data).withUnsafeBytes { read(ByteView($0)) } }
    }
}
