internal import Bytes
internal import Wire

/// The bucket of the plain memcached listener, and whether it is served.
///
/// A plain memcached client connects to one node and has no map. In a cluster of several nodes it
/// could not reach the documents of the other nodes, so the listener refuses its requests for
/// documents there, with the reason.
final class PlainListener: Sendable {
    /// Nil if the node has no such listener.
    let bucketName: String?
    /// 1 while requests are refused; read in every turn of a plain connection.
    private let word = SharedWord.allocated()

    init(bucketName: String?) {
        self.bucketName = bucketName
    }

    deinit { word.address.deallocate() }

    @inline(__always)
    var isRefusing: Bool {
        get { word.load() != 0 }
        set { word.store(newValue ? 1 : 0) }
    }
}

extension DocumentService {
    /// Sets whether the plain memcached listener serves its bucket; otherwise it refuses requests
    /// for documents.
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
