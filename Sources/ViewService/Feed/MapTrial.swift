internal import Bytes
internal import ScriptProcesses
package import Vocabulary
internal import Wire

/// The outcome of a map function's run on one document, which is not indexed.
package enum MapTrial: Sendable {
    /// Keys and values of the emitted rows, as JSON texts in the order of emission.
    case ended(rows: [(key: [UInt8], value: [UInt8])], log: [String])
    /// The failure's line in the author's text, 0 if it is not known; and its text.
    case failed(line: UInt32, text: String, log: [String])
    /// The document's key is not UTF-8, so views omit it.
    case omitted
}

extension ScriptPool {
    /// Runs a map function once, as an index would run it.
    ///
    /// - Parameters:
    ///   - source: The function's source, which need not be valid; if it is longer than the source
    ///     of any view can be, it is not run.
    ///   - document: A version of a document.
    ///   - key: Its key.
    ///   - vBucket: Its vBucket.
    ///   - bucket: The UUID of its bucket.
    /// - Returns: What the function did in one second of processor time; a failure if no process can
    ///   be started.
    package func tryMap(
        _ source: String,
        on document: DocumentCopy,
        key: [UInt8],
        vBucket: VBucketID,
        bucket: String
    ) async -> MapTrial {
        let (length, lengthMax) = (source.utf8.count, ScriptLimits.sourceBytesMax)
        guard length <= lengthMax else {
            let text = "The function has \(length) bytes; at most \(lengthMax) are possible."
            return .failed(line: 0, text: text, log: [])
        }
        let function = function(
            source,
            .map,
            ofBucket: bucket,
            timeoutMilliseconds: ScriptPool.mapTimeoutMilliseconds
        )
        var work = ScriptWorkWriter(.map, function)
        let input = MapInput()
        defer { withExtendedLifetime(input) {} }
        let isIndexed = key.withUnsafeBytes { key in
            document.value.withUnsafeBytes { value in
                let arguments = input.arguments(
                    document.meta,
                    vBucket: vBucket,
                    key: ByteView(key),
                    value: ByteView(value)
                )
                guard let arguments else { return false }
                work.append(
                    stamp: document.meta.cas.value,
                    first: arguments.meta,
                    second: arguments.body
                )
                return true
            }
        }
        guard isIndexed else { return .omitted }
        let whole = work.finish()
        let results = await withUnsafeContinuation { waiter in
            submit(whole, isAwaited: true) { waiter.resume(returning: $0) }
        }
        forget(function)
        if let failure = results.failures.first {
            return .failed(line: failure.line, text: failure.text, log: results.logs)
        }
        var rows: [(key: [UInt8], value: [UInt8])] = []
        EmittedRows(results).forEach(item: 0) { rows.append(($0.bytes, $1.bytes)) }
        return .ended(rows: rows, log: results.logs)
    }
}
