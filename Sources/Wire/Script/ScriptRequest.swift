package import Bytes

/// The purpose of a function.
package enum ScriptUse: UInt8, Sendable {
    /// `function (doc, meta)`, which emits rows.
    case map = 0
    /// `function (keys, values, rereduce)`, which returns a reduction.
    case reduce = 1
    /// `function (doc, oldDoc, userCtx)` of a sync gateway, whose calls are the rows.
    case sync = 2
}

/// A request of a node to its script process.
///
/// - Borrows the bytes of the frame.
package enum ScriptRequest {
    /// Replaces the function with this number, if there is one. Answers: defined or refused.
    case define(ScriptDefinition)
    /// Frees a function. No answer.
    case forget(function: UInt32)
    /// Calls functions. For each: executing, results in any number of pieces, finished.
    case execute(ScriptBatch)

    /// The request in a frame; nil if it is none, or malformed.
    package init?(_ frame: ScriptFrame) {
        var reader = ByteReader(frame.payload)
        switch frame.kind {
        case .define:
            guard let function = reader.bigEndian(UInt32.self),
                let use = reader.bigEndian(UInt8.self).flatMap(ScriptUse.init),
                let timeout = reader.bigEndian(UInt32.self),
                ScriptLimits.timeoutMilliseconds.contains(timeout),
                let length = reader.bigEndian(UInt32.self),
                length <= ScriptLimits.libraryBytesMax, let library = reader.bytes(Int(length)),
                reader.rest.count <= ScriptLimits.sourceBytesMax
            else { return nil }
            self = .define(
                ScriptDefinition(
                    function: function,
                    use: use,
                    timeoutMilliseconds: timeout,
                    source: reader.rest,
                    library: library
                )
            )
        case .forget:
            guard let function = reader.bigEndian(UInt32.self), reader.isAtEnd else { return nil }
            self = .forget(function: function)
        case .map, .reduce, .rereduce:
            guard let batch = ScriptBatch(frame) else { return nil }
            self = .execute(batch)
        default: return nil
        }
    }

    /// Appends `define`; source and library have at most `sourceBytesMax` and `libraryBytesMax` bytes.
    package static func appendDefinition(
        _ definition: ScriptDefinition,
        batch: UInt32,
        to output: ByteWriter
    ) {
        precondition(definition.source.count <= ScriptLimits.sourceBytesMax, "sources are bounded")
        precondition(
            definition.library.count <= ScriptLimits.libraryBytesMax,
            "libraries are bounded"
        )
        ScriptFrame.append(.define, batch: batch, to: output) { output in
            output.append(bigEndian: definition.function)
            output.append(definition.use.rawValue)
            output.append(bigEndian: definition.timeoutMilliseconds)
            output.append(bigEndian: UInt32(definition.library.count))
            output.append(definition.library)
            output.append(definition.source)
        }
    }

    package static func appendForget(function: UInt32, batch: UInt32, to output: ByteWriter) {
        ScriptFrame.append(.forget, batch: batch, to: output) { $0.append(bigEndian: function) }
    }
}

/// A function as a node defines it in a script process.
package struct ScriptDefinition {
    /// The node's number of the function in this process.
    package let function: UInt32
    package let use: ScriptUse
    /// CPU time of one call, within `ScriptLimits.timeoutMilliseconds`.
    package let timeoutMilliseconds: UInt32
    /// The author's text, in UTF-8.
    package let source: ByteView
    /// A text that is evaluated once before the source of a sync function, which may use its globals;
    /// empty if there is none, as for other uses.
    package let library: ByteView

    package init(
        function: UInt32,
        use: ScriptUse,
        timeoutMilliseconds: UInt32,
        source: ByteView,
        library: ByteView = .empty
    ) {
        precondition(
            ScriptLimits.timeoutMilliseconds.contains(timeoutMilliseconds),
            "a function's timeout is within the limits"
        )
        self.function = function
        self.use = use
        self.timeoutMilliseconds = timeoutMilliseconds
        self.source = source
        self.library = library
    }
}
