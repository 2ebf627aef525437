package import Bytes

/// Appends the replies of a script process to a writer.
///
/// Texts for authors are cut to `ScriptLimits.textBytesMax`.
package struct ScriptReplyEncoder {
    private let output: ByteWriter
    private let batch: UInt32

    /// `batch` is the number of the request that is answered; 0 for `ready`.
    package init(batch: UInt32, output: ByteWriter) {
        self.batch = batch
        self.output = output
    }

    package func ready(isFiltered: Bool) {
        append(.ready) { output in
            output.append(ScriptFrame.version)
            output.append(isFiltered ? 1 : 0)
        }
    }

    package func defined(function: UInt32) { append(.defined, function) }

    package func refused(function: UInt32, _ complaint: ScriptComplaint) {
        append(.refused, function) { output in
            output.append(bigEndian: complaint.line)
            output.append(ScriptReplyEncoder.cut(complaint.text))
        }
    }

    package func executing(function: UInt32) { append(.executing, function) }

    /// Begins a frame of rows for `appendRow`; returns where it starts, for `end`.
    package func beginRows(function: UInt32) -> Int { begin(.rows, function) }

    package func appendRow(item: UInt32, key: ByteView, value: ByteView) {
        output.append(bigEndian: item)
        output.append(bigEndian: UInt16(key.count))
        output.append(bigEndian: UInt32(value.count))
        output.append(key)
        output.append(value)
    }

    /// Begins a frame of reductions for `appendReduction`; returns where it starts, for `end`.
    package func beginReductions(function: UInt32) -> Int { begin(.reductions, function) }

    package func appendReduction(item: UInt32, value: ByteView) {
        output.append(bigEndian: item)
        output.append(bigEndian: UInt32(value.count))
        output.append(value)
    }

    /// Completes a frame; one without content is removed.
    package func end(_ start: Int) {
        if output.count == start + ScriptFrame.headerCount + 4 {
            output.truncate(to: start)
        } else {
            ScriptFrame.end(start, in: output)
        }
    }

    package func problem(function: UInt32, _ problem: ScriptProblem) {
        append(.problems, function) { output in
            let text = ScriptReplyEncoder.cut(problem.text)
            output.append(bigEndian: problem.item)
            output.append(problem.reason.rawValue)
            output.append(bigEndian: problem.line)
            output.append(bigEndian: UInt16(text.count))
            output.append(text)
        }
    }

    package func finished(function: UInt32) { append(.finished, function) }

    package func log(function: UInt32, dropped: UInt32, text: ByteView) {
        append(.log, function) { output in
            output.append(bigEndian: dropped)
            output.append(ScriptReplyEncoder.cut(text))
        }
    }

    /// Item 0 of a function overran; `overranItemOffset` is where a copy of the frame has its item.
    package func overran(function: UInt32) {
        append(.overran, function) { $0.append(bigEndian: UInt32(0)) }
    }

    package func retiring() { append(.retiring) { _ in } }

    /// The offset of the item's number (UInt32, big endian) in a frame `overran`.
    package static let overranItemOffset = ScriptFrame.headerCount + 4

    private func append(_ kind: ScriptFrame.Kind, _ body: (ByteWriter) -> Void) {
        ScriptFrame.append(kind, batch: batch, to: output, body)
    }

    private func append(
        _ kind: ScriptFrame.Kind,
        _ function: UInt32,
        body: (ByteWriter) -> Void = { _ in }
    ) {
        append(kind) { output in
            output.append(bigEndian: function)
            body(output)
        }
    }

    private func begin(_ kind: ScriptFrame.Kind, _ function: UInt32) -> Int {
        let start = ScriptFrame.begin(kind, batch: batch, in: output)
        output.append(bigEndian: function)
        return start
    }

    private static func cut(_ text: ByteView) -> ByteView {
        text.slice(0, min(text.count, ScriptLimits.textBytesMax))
    }
}
