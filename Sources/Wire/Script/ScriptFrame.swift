package import Bytes

/// One frame between a node or gateway and its script process: length, kind, batch, payload.
///
/// The length (UInt32) counts the bytes after it; all integers are big endian. "Node" stands for both
/// below. The node numbers its requests: the replies of the process repeat the request's number as their batch.
///
/// | kind | from | payload |
/// | --- | --- | --- |
/// | 0x01 define | node | function (4), use (1), timeout in milliseconds (4), bytes of library (4), library, source |
/// | 0x02 forget | node | function (4) |
/// | 0x04 map, 0x05 reduce, 0x06 rereduce | node | `ScriptBatch` |
/// | 0x81 ready | process | version (1), whether system calls are filtered (1) |
/// | 0x82 defined | process | function (4) |
/// | 0x83 refused | process | function (4), line (4), text |
/// | 0x85 executing | process | function (4) |
/// | 0x86 rows | process | function (4), `ScriptRow`s |
/// | 0x87 problems | process | function (4), `ScriptProblem`s |
/// | 0x88 reductions | process | function (4), `ScriptReduction`s |
/// | 0x89 finished | process | function (4) |
/// | 0x8a log | process | function (4), dropped lines (4), text |
/// | 0x8b overran | process | function (4), item (4), or 2^32 - 1 |
/// | 0x8c retiring | process | nothing |
///
/// - Created by `next(in:bytesMax:)`; borrows the decoded bytes.
package struct ScriptFrame {
    package static let headerCount = 9
    /// Changes with every change of the frames; both programs come from one build.
    package static let version: UInt8 = 2

    package let kind: Kind
    package let batch: UInt32
    package let payload: ByteView

    package enum Kind: UInt8, Sendable {
        case define = 0x01
        case forget = 0x02
        case map = 0x04
        case reduce = 0x05
        case rereduce = 0x06
        case ready = 0x81
        case defined = 0x82
        case refused = 0x83
        case executing = 0x85
        case rows = 0x86
        case problems = 0x87
        case reductions = 0x88
        case finished = 0x89
        case log = 0x8a
        case overran = 0x8b
        case retiring = 0x8c
    }

    package enum Outcome {
        /// The next step needs `needed` bytes in the buffer.
        case incomplete(needed: Int)
        case frame(ScriptFrame)
        /// An invalid length or kind: the other side does not speak this protocol.
        case invalid
    }

    /// Where the next frame begins.
    package var byteCount: Int { ScriptFrame.headerCount + payload.count }

    /// Decodes the frame at the start of `view`, which has at most `bytesMax` bytes.
    package static func next(in view: ByteView, bytesMax: Int) -> Outcome {
        guard view.count >= 4 else { return .incomplete(needed: headerCount) }
        let length = Int(view.bigEndian(at: 0, as: UInt32.self))
        guard length >= headerCount - 4, length + 4 <= bytesMax else { return .invalid }
        guard view.count >= 4 + length else { return .incomplete(needed: 4 + length) }
        guard let kind = Kind(rawValue: view[4]) else { return .invalid }
        return .frame(
            ScriptFrame(
                kind: kind,
                batch: view.bigEndian(at: 5, as: UInt32.self),
                payload: view.slice(headerCount, length - (headerCount - 4))
            )
        )
    }

    /// Appends a frame whose payload `body` appends.
    static func append(
        _ kind: Kind,
        batch: UInt32,
        to output: ByteWriter,
        _ body: (ByteWriter) -> Void
    ) {
        let start = begin(kind, batch: batch, in: output)
        body(output)
        end(start, in: output)
    }

    /// Appends a header; returns where the frame starts, for `end`.
    static func begin(_ kind: Kind, batch: UInt32, in output: ByteWriter) -> Int {
        let start = output.count
        output.append(bigEndian: UInt32(0))
        output.append(kind.rawValue)
        output.append(bigEndian: batch)
        return start
    }

    /// Completes the frame that starts at `start` and has its whole payload.
    static func end(_ start: Int, in output: ByteWriter) {
        output.replace(at: start, bigEndian: UInt32(output.count - start - 4))
    }
}
