internal import Bytes
internal import Engine
internal import Vocabulary
internal import Wire

/// The bucket of the plain memcached listener, and whether it is served.
///
/// A plain client knows one node and no map. In a cluster of several nodes it would miss every
/// document that another node has, so its requests on documents are refused there, with a sentence.
final class PlainListener: Sendable {
    /// Nil if the node has no such listener.
    let bucketName: String?
    /// 1 while requests are refused; every turn of a plain connection looks at it.
    private let word: SharedWord

    init(bucketName: String?) {
        self.bucketName = bucketName
        let memory = UnsafeMutablePointer<UInt64>.allocate(capacity: 1)
        memory.initialize(to: 0)
        word = SharedWord(at: memory)
    }

    deinit { word.address.deallocate() }

    @inline(__always)
    var isRefusing: Bool {
        get { word.load() != 0 }
        set { word.store(newValue ? 1 : 0) }
    }
}

extension DocumentService {
    /// Has the plain memcached listener serve its bucket, or refuse every request on documents.
    package func servePlainClients(_ isServing: Bool) { plain.isRefusing = !isServing }
}

extension Connection {
    private static let refusal: StaticString = """
        This node is in a cluster of several nodes, and memcached clients reach the documents of one \
        node alone. Use a Couchbase client.
        """

    /// Answers a request on documents while plain clients are refused.
    func refusePlainClient(_ frame: Frame) {
        let text = Self.refusal
        let words = UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        ResponseEncoder.append(
            .notSupported,
            to: output,
            replyTo: frame.replyTo,
            value: ByteView(words)
        )
    }
}
