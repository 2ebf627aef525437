/// The sizes that a node and a script process agree on.
///
/// The process keeps them so that no function costs more than its share; the node checks them
/// again, because the process is not trusted.
package enum ScriptLimits {
    /// Bytes of a request frame: the largest body (20 MiB) as base64 with its metadata, of which
    /// system attributes have 1 MiB.
    package static let requestBytesMax = 32 << 20
    /// Bytes of a reply frame: all rows of one document with their headers fit.
    package static let replyBytesMax = 8 << 20
    /// Bytes of rows or reductions after which a reply is sent and the next one begins.
    package static let pieceBytes = 1 << 20

    /// Documents or groups of one request.
    package static let itemsMax = 4_096
    /// Functions of one request.
    package static let functionsMax = 256
    package static let sourceBytesMax = 1 << 20
    package static let libraryBytesMax = 1 << 20

    /// Bytes of a key's JSON text; the limit of Couchbase's views.
    package static let keyBytesMax = 4_095
    /// Rows that a map function may emit for one document.
    package static let rowsMax = 65_536
    /// Bytes of all keys and values that a map function may emit for one document.
    package static let emittedBytesMax = 1 << 20
    /// Bytes of a reduction's JSON text.
    package static let reductionBytesMax = 65_535
    /// Open brackets that the JSON text of a key, a value or a reduction may have at a time: those
    /// that `JSONGrammar` accepts.
    package static let depthMax = 1_024

    /// Bytes of an error's message or of a log line.
    package static let textBytesMax = 1_024
    /// Lines that one function may log in one request.
    package static let logLinesMax = 10

    /// CPU time of one call of a function, as a definition may set it.
    package static let timeoutMilliseconds: ClosedRange<UInt32> = 10...10_000
    package static let mapTimeoutMilliseconds: UInt32 = 1_000
    package static let reduceTimeoutMilliseconds: UInt32 = 5_000
}
