internal import Bytes
package import Vocabulary

/// A document as returned by a read.
package struct Document: Hashable, Sendable {
    package var value: [UInt8]
    package var flags: UInt32
    package var cas: CAS
    /// Whether the server recognised the value as JSON.
    package var isJSON: Bool

    package var text: String { String(decoding: value, as: UTF8.self) }

    package init(value: [UInt8], flags: UInt32, cas: CAS, isJSON: Bool) {
        self.value = value
        self.flags = flags
        self.cas = cas
        self.isJSON = isJSON
    }
}

/// Identifies a change of a vBucket's history.
package struct MutationToken: Hashable, Sendable {
    package let vBucket: VBucketID
    package let uuid: VBucketUUID
    package let seqno: Seqno
}

/// The result of a write.
package struct MutationResult: Hashable, Sendable {
    package let cas: CAS
    /// Nil if the server sent none.
    package let token: MutationToken?
}

/// The result of a counter operation; `value` is the new one.
package struct CounterResult: Hashable, Sendable {
    package let value: UInt64
    package let cas: CAS
    package let token: MutationToken?
}

/// When a document expires.
package enum Expiry: Hashable, Sendable {
    case never
    case afterSeconds(UInt32)
    /// Seconds since 1970.
    case at(UInt32)

    /// The encoding in the protocol, for a request that is sent at `wallNanoseconds` (since 1970).
    ///
    /// The server interprets a value above 30 days as seconds since 1970, so longer times are sent
    /// in that form, rounded up to a whole second so that no document expires early. A date in
    /// January 1970 is sent as the least value that the server interprets as a date.
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

/// The options of a write.
package struct WriteOptions: Sendable {
    /// The version to overwrite; `none` for any.
    package var cas = CAS.none
    package var expiry = Expiry.never
    /// Keeps the document's present expiry.
    package var preservesExpiry = false
    package var flags: UInt32 = 0
    /// Which copies must have the write before it is acknowledged; nil for the active one alone.
    package var durability: DurabilityLevel?
    /// How long the server may wait for the copies; nil for nine tenths of the operation's timeout.
    package var durabilityTimeoutMilliseconds: UInt16?
    package var timeout = OperationTimeout.usual

    package init() {}

    package static var plain: WriteOptions { WriteOptions() }

    package static func durable(_ level: DurabilityLevel) -> WriteOptions {
        var options = WriteOptions()
        options.durability = level
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

    /// The error for an answer that the client cannot use.
    func refusal(_ text: String) -> ClientError {
        var error = ClientError(.refused, text)
        (error.vBucket, error.node, error.attempts) = (vBucket, node, 1)
        return error
    }

    /// Decodes the answer to a counter operation.
    ///
    /// - Throws: `refused` if it does not have 8 bytes.
    func counter() throws(ClientError) -> CounterResult {
        guard answer.value.count == 8 else {
            throw refusal("the answer to a counter operation does not have 8 bytes")
        }
        let value = answer.value.withUnsafeBytes { ByteView($0).bigEndian(at: 0, as: UInt64.self) }
        return CounterResult(value: value, cas: answer.cas, token: token)
    }
}
