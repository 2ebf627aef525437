internal import Bytes
internal import Seams
package import Wire

/// Checks of sources, for authors of functions.
extension ScriptPool {
    /// An error in a source, found without calling the function.
    package struct SourceFlaw: Hashable, Sendable {
        /// The line of the author's text, from 1 on; 0 if unknown.
        package let line: UInt32
        /// The parser's message, or that the source is not a function.
        package let text: String
    }

    /// Defines a function in a script process, without calling it.
    ///
    /// A process answers a batch of the wrong kind with `undefined`, whether it has the function or
    /// not; if the source was refused, the pool has the complaint. So no code of the function runs, and
    /// no document has to be invented for it.
    ///
    /// - Parameters:
    ///   - source: The author's text.
    ///   - use: What the function is for.
    ///   - bucket: The UUID of the bucket, or the name of the database, whose documents it would read.
    ///   - library: What a sync function may use beside the language.
    /// - Returns: The first error of the source; nil if it has none, or if no process answered within
    ///   `checkNanoseconds`.
    package func flaw(
        in source: String,
        _ use: ScriptUse,
        forBucket bucket: String,
        library: ScriptLibrary? = nil
    ) async -> SourceFlaw? {
        let function = function(
            source,
            use,
            ofBucket: bucket,
            timeoutMilliseconds: ScriptPool.checkMilliseconds,
            library: library
        )
        let isAnswered = Guarded(false)
        let flaw: SourceFlaw? = await withUnsafeContinuation { waiter in
            let answer = { @Sendable (flaw: SourceFlaw?) in
                let isFirst = isAnswered.withLock { isAnswered in
                    defer { isAnswered = true }
                    return !isAnswered
                }
                if isFirst { waiter.resume(returning: flaw) }
            }
            lane.post(after: ScriptPool.checkNanoseconds) { answer(nil) }
            submit(ScriptPool.work(ofWrongKindFor: function)) { results in
                answer(ScriptPool.flaw(in: results))
            }
        }
        forget(function)
        return flaw
    }

    /// How long a check may take: processes may have to be started, and may be busy.
    private static let checkNanoseconds: UInt64 = 5_000_000_000
    /// Processor time for evaluating a source.
    private static let checkMilliseconds: UInt32 = 1_000

    private static func work(ofWrongKindFor function: ScriptFunction) -> ScriptWork {
        let purpose: ScriptBatch.Purpose = function.use == .reduce ? .map : .rereduce
        var work = ScriptWorkWriter(purpose, function)
        work.append(first: ScriptWorkWriter.null, second: ScriptWorkWriter.null)
        return work.finish()
    }

    private static func flaw(in results: ScriptResults) -> SourceFlaw? {
        guard let failure = results.failures.first, failure.kind == .problem(.undefined),
            !failure.text.isEmpty
        else { return nil }
        return SourceFlaw(line: failure.line, text: failure.text)
    }
}
