package import Bytes

/// An answer of a script process to its node.
///
/// - Borrows the bytes of the frame.
/// - Its form is valid, its content is not trusted: `ScriptBatchCheck` compares it with the request.
package enum ScriptReply {
    /// The process has started. It does not filter system calls where the kernel cannot.
    case ready(version: UInt8, isFiltered: Bool)
    case defined(function: UInt32)
    case refused(function: UInt32, ScriptComplaint)
    /// The process now runs this function of the batch: if it dies, this batch is suspect.
    case executing(function: UInt32)
    case rows(function: UInt32, ScriptSection<ScriptRow>)
    case problems(function: UInt32, ScriptSection<ScriptProblem>)
    case reductions(function: UInt32, ScriptSection<ScriptReduction>)
    /// All results of this function for the batch were sent.
    case finished(function: UInt32)
    /// A line that a function logged; `dropped` lines were left out before it.
    case log(function: UInt32, dropped: UInt32, text: ByteView)
    /// This item exceeded its time in a way that could not be interrupted; the process has ended.
    ///
    /// Nil if it was not an item: a definition, or jobs of promises that items left behind.
    case overran(function: UInt32, item: UInt32?)
    /// The process has little memory left after the batches before this one, and has ended: it has
    /// called no function of this batch.
    case retiring

    /// The reply in a frame; nil if it is none, or malformed.
    package init?(_ frame: ScriptFrame) {
        var reader = ByteReader(frame.payload)
        if frame.kind == .ready {
            guard let version = reader.bigEndian(UInt8.self),
                let isFiltered = reader.bigEndian(UInt8.self), isFiltered <= 1, reader.isAtEnd
            else { return nil }
            self = .ready(version: version, isFiltered: isFiltered == 1)
            return
        }
        if frame.kind == .retiring {
            guard reader.isAtEnd else { return nil }
            self = .retiring
            return
        }
        guard let function = reader.bigEndian(UInt32.self) else { return nil }
        switch frame.kind {
        case .refused:
            guard let complaint = ScriptComplaint(&reader) else { return nil }
            self = .refused(function: function, complaint)
        case .rows:
            guard let rows = ScriptSection<ScriptRow>(reader.rest) else { return nil }
            self = .rows(function: function, rows)
        case .problems:
            guard let problems = ScriptSection<ScriptProblem>(reader.rest) else { return nil }
            self = .problems(function: function, problems)
        case .reductions:
            guard let reductions = ScriptSection<ScriptReduction>(reader.rest) else { return nil }
            self = .reductions(function: function, reductions)
        case .log:
            guard let dropped = reader.bigEndian(UInt32.self),
                reader.rest.count <= ScriptLimits.textBytesMax
            else { return nil }
            self = .log(function: function, dropped: dropped, text: reader.rest)
        case .overran:
            guard let item = reader.bigEndian(UInt32.self), reader.isAtEnd else { return nil }
            self = .overran(function: function, item: item == .max ? nil : item)
        case .defined where reader.isAtEnd: self = .defined(function: function)
        case .executing where reader.isAtEnd: self = .executing(function: function)
        case .finished where reader.isAtEnd: self = .finished(function: function)
        default: return nil
        }
    }
}

/// Why a source is not a function.
package struct ScriptComplaint {
    /// The line of the author's text, from 1 on; 0 if unknown.
    package let line: UInt32
    /// At most `ScriptLimits.textBytesMax` bytes, which need not be UTF-8.
    package let text: ByteView

    package init(line: UInt32, text: ByteView) {
        self.line = line
        self.text = text
    }

    init?(_ reader: inout ByteReader) {
        guard let line = reader.bigEndian(UInt32.self),
            reader.rest.count <= ScriptLimits.textBytesMax
        else { return nil }
        self.line = line
        text = reader.rest
    }
}

/// One row that a map function emitted.
package struct ScriptRow {
    /// The index of the document in its batch.
    package let item: UInt32
    /// JSON text of at most `ScriptLimits.keyBytesMax` bytes.
    package let key: ByteView
    /// JSON text.
    package let value: ByteView
}

/// A part of a section: parts follow each other until its end.
package protocol ScriptSectionPart {
    /// Reads a part; nil if the bytes are not a whole one.
    init?(_ reader: inout ByteReader)
}

/// The parts of one kind in a message, checked to be whole.
package struct ScriptSection<Part: ScriptSectionPart> {
    private var reader: ByteReader

    /// The bytes that `next` has not consumed.
    package var bytes: ByteView { reader.rest }

    /// Checks that whole parts fill `view`.
    package init?(_ view: ByteView) {
        reader = ByteReader(view)
        var parts = self
        while parts.next() != nil {}
        guard parts.reader.isAtEnd else { return nil }
    }

    /// Consumes the next part; nil at the end.
    package mutating func next() -> Part? {
        var ahead = reader
        guard let part = Part(&ahead) else { return nil }
        reader = ahead
        return part
    }
}

/// Item (4), key length (2), value length (4), key, value.
extension ScriptRow: ScriptSectionPart {
    package init?(_ reader: inout ByteReader) {
        guard let item = reader.bigEndian(UInt32.self),
            let keyCount = reader.bigEndian(UInt16.self),
            let valueCount = reader.bigEndian(UInt32.self),
            let key = reader.bytes(Int(keyCount)), let value = reader.bytes(Int(valueCount))
        else { return nil }
        self.init(item: item, key: key, value: value)
    }
}

/// One result of a reduce function.
package struct ScriptReduction {
    /// The index of the group in its batch.
    package let item: UInt32
    /// JSON text of at most `ScriptLimits.reductionBytesMax` bytes.
    package let value: ByteView
}

/// Item (4), length (4), text.
extension ScriptReduction: ScriptSectionPart {
    package init?(_ reader: inout ByteReader) {
        guard let item = reader.bigEndian(UInt32.self),
            let count = reader.bigEndian(UInt32.self), let value = reader.bytes(Int(count))
        else { return nil }
        self.init(item: item, value: value)
    }
}

/// Why an item has no result.
package struct ScriptProblem {
    package enum Reason: UInt8, Sendable, CaseIterable {
        case threw = 1
        case timedOut = 2
        case keyTooLong = 3
        case emittedTooMuch = 4
        case reductionTooLong = 5
        /// The item is not JSON, so the function was not called; or a text of its result nests
        /// deeper than `ScriptLimits.depthMax`, which no node accepts as JSON.
        case notJSON = 6
        /// No such function is defined in this process.
        case undefined = 7
    }

    /// The index of the document or group in its batch.
    package let item: UInt32
    package let reason: Reason
    /// The line of the author's text, from 1 on; 0 if unknown.
    package let line: UInt32
    /// For the author; at most `ScriptLimits.textBytesMax` bytes, which need not be UTF-8.
    package let text: ByteView

    package init(item: UInt32, reason: Reason, line: UInt32, text: ByteView) {
        self.item = item
        self.reason = reason
        self.line = line
        self.text = text
    }
}

/// Item (4), reason (1), line (4), text length (2), text.
extension ScriptProblem: ScriptSectionPart {
    package init?(_ reader: inout ByteReader) {
        guard let item = reader.bigEndian(UInt32.self),
            let reason = reader.bigEndian(UInt8.self).flatMap(Reason.init),
            let line = reader.bigEndian(UInt32.self), let count = reader.bigEndian(UInt16.self),
            Int(count) <= ScriptLimits.textBytesMax, let text = reader.bytes(Int(count))
        else { return nil }
        self.init(item: item, reason: reason, line: line, text: text)
    }
}
