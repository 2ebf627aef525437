package import Bytes
package import Wire

/// A function that script processes may run.
///
/// - Its number is its name in all processes of the pool.
package struct ScriptFunction: Hashable, Sendable {
    package let number: UInt32
    /// The UUID of the bucket, or the name of the database, whose documents it reads: no function of
    /// another one runs in its process.
    package let bucket: String
    package let use: ScriptUse
    /// The author's text.
    package let source: String
    /// The library that a sync function may use beside the language.
    package let library: ScriptLibrary?
    /// Processor time of one call.
    package let timeoutMilliseconds: UInt32

    /// Passes the function as a process gets it to `body`.
    func withDefinition(_ body: (ScriptDefinition) -> Void) {
        var source = source
        source.withUTF8 { source in
            (library?.bytes ?? []).withUnsafeBytes { library in
                body(
                    ScriptDefinition(
                        function: number,
                        use: use,
                        timeoutMilliseconds: timeoutMilliseconds,
                        source: ByteView(UnsafeRawBufferPointer(source)),
                        library: ByteView(library)
                    )
                )
            }
        }
    }
}

/// Items for one function, as one frame.
package struct ScriptWork: Sendable {
    package let purpose: ScriptBatch.Purpose
    package let function: ScriptFunction
    /// The number of items.
    package let count: Int
    /// A frame of `ScriptBatchEncoder` with this function and any batch number.
    package let frame: [UInt8]

    /// Decodes the work's batch and passes it to `body`.
    func withBatch<Result>(_ body: (ScriptBatch) -> Result) -> Result {
        frame.withUnsafeBytes { bytes in
            guard
                case .frame(let frame) = ScriptFrame.next(
                    in: ByteView(bytes),
                    bytesMax: ScriptLimits.requestBytesMax
                ), case .execute(let batch) = ScriptRequest(frame)
            else { preconditionFailure("the work of a script process is a frame of a batch") }
            return body(batch)
        }
    }

    /// Appends a frame with some of the items.
    func append(_ items: Range<Int>, batch number: UInt32, to output: ByteWriter) {
        guard items.count < count else {
            output.append(frame)
            // The number is behind the length and the kind.
            output.replace(at: output.count - frame.count + 5, bigEndian: number)
            return
        }
        withBatch { batch in
            var encoder = ScriptBatchEncoder(
                purpose,
                functions: [function.number],
                batch: number,
                to: output
            )
            for (index, item) in batch.items().enumerated() where items.contains(index) {
                encoder.append(stamp: item.stamp, first: item.first, second: item.second)
            }
            encoder.finish()
        }
    }
}

/// Work for one function that is being made, item by item.
package struct ScriptWorkWriter {
    private let purpose: ScriptBatch.Purpose
    private let function: ScriptFunction
    private let frame = ByteWriter(capacity: 64 << 10)
    private var encoder: ScriptBatchEncoder

    package init(_ purpose: ScriptBatch.Purpose, _ function: ScriptFunction) {
        self.purpose = purpose
        self.function = function
        encoder = ScriptBatchEncoder(purpose, functions: [function.number], batch: 0, to: frame)
    }

    /// The JSON text of no keys.
    package static var null: ByteView {
        let text: StaticString = "null"
        return ByteView(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }

    /// The number of items.
    package var count: Int { encoder.count }

    /// The bytes of the items' texts, about.
    package var byteCount: Int { frame.count }

    /// Whether an item whose texts have so many bytes together fits into the frame.
    package func hasRoom(for textBytes: Int) -> Bool { encoder.hasRoom(for: textBytes) }

    /// Appends an item, for which there must be room.
    package mutating func append(stamp: UInt64 = 0, first: ByteView, second: ByteView) {
        encoder.append(stamp: stamp, first: first, second: second)
    }

    /// The work, which has at least one item.
    package func finish() -> ScriptWork {
        encoder.finish()
        return ScriptWork(purpose: purpose, function: function, count: count, frame: frame.bytes)
    }
}
