package import Bytes

/// What a script process answers.
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
    case rows(function: UInt32, ScriptRowSection)
    case problems(function: UInt32, ScriptProblemSection)
    case reductions(function: UInt32, ScriptReductionSection)
    /// All results of this function for the batch were sent.
    case finished(function: UInt32)
    /// A line that a function logged; `dropped` lines were left out before it.
    case log(function: UInt32, dropped: UInt32, text: ByteView)
    /// This item exceeded its time in a way that could not be interrupted; the process has ended.
    ///
    /// Nil if it was not an item: a definition, or jobs of promises that items left behind.
    case overran(function: UInt32, item: UInt32?)

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
        guard let function = reader.bigEndian(UInt32.self) else { return nil }
        switch frame.kind {
        case .refused:
            guard let complaint = ScriptComplaint(&reader) else { return nil }
            self = .refused(function: function, complaint)
        case .rows:
            guard let rows = ScriptRowSection(reader.rest) else { return nil }
            self = .rows(function: function, rows)
        case .problems:
            guard let problems = ScriptProblemSection(reader.rest) else { return nil }
            self = .problems(function: function, problems)
        case .reductions:
            guard let reductions = ScriptReductionSection(reader.rest) else { return nil }
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

/// Rows: item (4), key length (2), value length (4), key, value each.
package struct ScriptRowSection {
    private var reader: ByteReader

    /// What `next` has not consumed.
    package var bytes: ByteView { reader.rest }

    /// Checks that whole rows fill `view`.
    package init?(_ view: ByteView) {
        reader = ByteReader(view)
        var rows = self
        while rows.next() != nil {}
        guard rows.reader.isAtEnd else { return nil }
    }

    /// Consumes the next row; nil at the end.
    package mutating func next() -> ScriptRow? {
        var ahead = reader
        guard let item = ahead.bigEndian(UInt32.self),
            let keyCount = ahead.bigEndian(UInt16.self),
            let valueCount = ahead.bigEndian(UInt32.self),
            let key = ahead.bytes(Int(keyCount)), let value = ahead.bytes(Int(valueCount))
        else { return nil }
        reader = ahead
        return ScriptRow(item: item, key: key, value: value)
    }
}

/// One result of a reduce function.
package struct ScriptReduction {
    /// The index of the group in its batch.
    package let item: UInt32
    /// JSON text of at most `ScriptLimits.reductionBytesMax` bytes.
    package let value: ByteView
}

/// Reductions: item (4), length (4), text each.
package struct ScriptReductionSection {
    private var reader: ByteReader

    /// What `next` has not consumed.
    package var bytes: ByteView { reader.rest }

    /// Checks that whole reductions fill `view`.
    package init?(_ view: ByteView) {
        reader = ByteReader(view)
        var reductions = self
        while reductions.next() != nil {}
        guard reductions.reader.isAtEnd else { return nil }
    }

    /// Consumes the next reduction; nil at the end.
    package mutating func next() -> ScriptReduction? {
        var ahead = reader
        guard let item = ahead.bigEndian(UInt32.self),
            let count = ahead.bigEndian(UInt32.self), let value = ahead.bytes(Int(count))
        else { return nil }
        reader = ahead
        return ScriptReduction(item: item, value: value)
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

/// Problems: item (4), reason (1), line (4), text length (2), text each.
package struct ScriptProblemSection {
    private var reader: ByteReader

    /// Checks that whole problems fill `view`.
    package init?(_ view: ByteView) {
        reader = ByteReader(view)
        var problems = self
        while problems.next() != nil {}
        guard problems.reader.isAtEnd else { return nil }
    }

    /// Consumes the next problem; nil at the end.
    package mutating func next() -> ScriptProblem? {
        var ahead = reader
        guard let item = ahead.bigEndian(UInt32.self),
            let reason = ahead.bigEndian(UInt8.self).flatMap(ScriptProblem.Reason.init),
            let line = ahead.bigEndian(UInt32.self), let count = ahead.bigEndian(UInt16.self),
            Int(count) <= ScriptLimits.textBytesMax, let text = ahead.bytes(Int(count))
        else { return nil }
        reader = ahead
        return ScriptProblem(item: item, reason: reason, line: line, text: text)
    }
}
