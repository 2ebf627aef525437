internal import Bytes
package import Vocabulary
internal import Wire

/// A document as a read finds it.
package struct Document: Hashable, Sendable {
    package var value: [UInt8]
    package var flags: UInt32
    package var cas: CAS
    /// Whether the server takes the value for JSON.
    package var isJSON: Bool

    package var text: String { String(decoding: value, as: UTF8.self) }

    package init(value: [UInt8], flags: UInt32, cas: CAS, isJSON: Bool) {
        self.value = value
        self.flags = flags
        self.cas = cas
        self.isJSON = isJSON
    }
}

/// A document as one copy of it has it.
package struct CopyOfDocument: Hashable, Sendable {
    package let document: Document
    package let copy: KeyRouter.Copy
}

/// The name of a change, by which its persistence can be asked for.
package struct MutationToken: Hashable, Sendable {
    package let vBucket: VBucketID
    package let uuid: VBucketUUID
    package let seqno: Seqno
}

/// What a write made.
package struct MutationResult: Hashable, Sendable {
    package let cas: CAS
    /// Nil where the server gives none.
    package let token: MutationToken?
}

/// What a counter made.
package struct CounterResult: Hashable, Sendable {
    package let value: UInt64
    package let cas: CAS
    package let token: MutationToken?
}

/// How far a vBucket has come.
package struct ObservedSeqno: Hashable, Sendable {
    package let uuid: VBucketUUID
    package let persisted: Seqno
    package let current: Seqno
    /// Where the history that was asked about ended, if another one follows it.
    package let forkedAt: Seqno?
}

/// When a document ends by itself.
package enum Expiry: Hashable, Sendable {
    case never
    case afterSeconds(UInt32)
    /// Seconds since 1970.
    case at(UInt32)

    /// The expiry field of a request that is sent at `wallNanoseconds` (since 1970).
    ///
    /// More than 30 days would be taken for a date, and a date of January 1970 for a time from now.
    /// More than 30 days are rounded up to a whole second, so that no document expires early.
    package func wire(wallNanoseconds: UInt64) -> UInt32 {
        switch self {
        case .never: 0
        case .at(let seconds): max(seconds, Limits.relativeExpiryMax + 1)
        case .afterSeconds(let seconds) where seconds <= Limits.relativeExpiryMax: max(1, seconds)
        case .afterSeconds(let seconds):
            UInt32(clamping: UInt64(seconds) + (wallNanoseconds + 999_999_999) / 1_000_000_000)
        }
    }
}

/// What a write may say beside its value.
package struct WriteOptions: Sendable {
    /// The version to write over; `none` for any.
    package var cas = CAS.none
    package var expiry = Expiry.never
    /// Leaves the expiry as it is.
    package var preservesExpiry = false
    package var flags: UInt32 = 0
    /// How many copies must have it before it is answered; nil for the active one alone.
    package var durability: DurabilityLevel?
    /// Milliseconds that the server may wait for the copies; nil for nine tenths of the patience.
    package var durabilityTimeoutMilliseconds: UInt16?
    package var patience = Patience.usual

    package init() {}

    package static var plain: WriteOptions { WriteOptions() }

    package static func durable(_ level: DurabilityLevel) -> WriteOptions {
        var options = WriteOptions()
        options.durability = level
        return options
    }

    package static func ifUnchanged(since cas: CAS) -> WriteOptions {
        var options = WriteOptions()
        options.cas = cas
        return options
    }
}

extension Operation.Reply {
    var mutation: MutationResult { MutationResult(cas: answer.cas, token: token) }

    private var token: MutationToken? {
        guard answer.extras.count == 16 else { return nil }
        return answer.extras.withUnsafeBytes { extras in
            let view = ByteView(extras)
            return MutationToken(
                vBucket: vBucket,
                uuid: VBucketUUID(view.bigEndian(at: 0, as: UInt64.self)),
                seqno: Seqno(view.bigEndian(at: 8, as: UInt64.self))
            )
        }
    }

    var document: Document {
        let flags =
            answer.extras.count == 4
            ? answer.extras.withUnsafeBytes { ByteView($0).bigEndian(at: 0, as: UInt32.self) } : 0
        return Document(
            value: answer.value,
            flags: flags,
            cas: answer.cas,
            isJSON: answer.datatype.contains(.json)
        )
    }

    func counter() throws(ClientError) -> CounterResult {
        guard answer.value.count == 8 else { throw odd("a counter's answer is 8 bytes long") }
        let value = answer.value.withUnsafeBytes { ByteView($0).bigEndian(at: 0, as: UInt64.self) }
        return CounterResult(value: value, cas: answer.cas, token: token)
    }

    func observedSeqno() throws(ClientError) -> ObservedSeqno {
        let count = answer.value.count
        guard let format = answer.value.first, count == (format == 0 ? 27 : 43) else {
            throw odd("the answer to OBSERVE_SEQNO has an unknown form")
        }
        return answer.value.withUnsafeBytes { value in
            let view = ByteView(value)
            func number(_ offset: Int) -> UInt64 { view.bigEndian(at: offset, as: UInt64.self) }
            return ObservedSeqno(
                uuid: VBucketUUID(number(3)),
                persisted: Seqno(number(11)),
                current: Seqno(number(19)),
                forkedAt: format == 0 ? nil : Seqno(number(35))
            )
        }
    }

    private func odd(_ text: String) -> ClientError {
        ClientError(.refused, text, vBucket: vBucket, node: node, attempts: 1)
    }
}
