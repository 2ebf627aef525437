package import Bytes

/// Functions and the items that each of them is called with.
///
/// Payload: number of functions (2), functions (4 each), text length (4), text, then per item its
/// stamp (8) and the lengths of its two texts (4 each). The text is one JSON array of all items'
/// texts, so that the process parses a whole batch at once; the lengths find each item if that
/// fails. They follow the text, so that the node writes every document once.
///
/// | purpose | stamp | first text | second text |
/// | --- | --- | --- | --- |
/// | map | the document's CAS | `meta` | `doc`: the document, or a string with its base64 form |
/// | map, of a sync function | the time in nanoseconds since 1970 | `[oldDoc, userCtx]` | `doc` |
/// | reduce | 0 | `keys`, an array | `values`, an array |
/// | rereduce | 0 | `null` | `values`, an array |
///
/// - Borrows the bytes of the frame.
package struct ScriptBatch {
    package enum Purpose: CaseIterable, Sendable {
        case map
        case reduce
        case rereduce

        var kind: ScriptFrame.Kind {
            switch self {
            case .map: .map
            case .reduce: .reduce
            case .rereduce: .rereduce
            }
        }
    }

    /// A document with its metadata, or a group of rows to reduce.
    package struct Item {
        package let stamp: UInt64
        package let first: ByteView
        package let second: ByteView
    }

    static let entryCount = 16

    package let purpose: Purpose
    /// Without repetitions.
    package let functions: [UInt32]
    /// All texts as one JSON array: first, second, first, second ...
    package let text: ByteView
    private let entries: ByteView

    package var count: Int { entries.count / ScriptBatch.entryCount }

    /// The batch in a frame; nil if it has none, or if its lengths contradict each other.
    init?(_ frame: ScriptFrame) {
        guard let purpose = Purpose.allCases.first(where: { $0.kind == frame.kind }) else {
            return nil
        }
        self.purpose = purpose
        var reader = ByteReader(frame.payload)
        guard let functionCount = reader.bigEndian(UInt16.self),
            1...ScriptLimits.functionsMax ~= Int(functionCount)
        else { return nil }
        var functions: [UInt32] = []
        for _ in 0..<functionCount {
            guard let function = reader.bigEndian(UInt32.self), !functions.contains(function) else {
                return nil
            }
            functions.append(function)
        }
        guard let length = reader.bigEndian(UInt32.self), let text = reader.bytes(Int(length)),
            reader.rest.count.isMultiple(of: ScriptBatch.entryCount),
            1...ScriptLimits.itemsMax ~= reader.rest.count / ScriptBatch.entryCount
        else { return nil }
        self.functions = functions
        self.text = text
        entries = reader.rest
        var end = 1
        for index in 0..<count {
            let (first, second) = lengths(index)
            end += first + second + 2
        }
        guard end == text.count else { return nil }
    }

    /// The stamp of the item at `index`.
    package func stamp(_ index: Int) -> UInt64 {
        entries.bigEndian(at: index * ScriptBatch.entryCount, as: UInt64.self)
    }

    /// All items, in order.
    package func items() -> [Item] {
        var items: [Item] = []
        items.reserveCapacity(count)
        var place = 1
        for index in 0..<count {
            let (first, second) = lengths(index)
            items.append(
                Item(
                    stamp: stamp(index),
                    first: text.slice(place, first),
                    second: text.slice(place + first + 1, second)
                )
            )
            place += first + second + 2
        }
        return items
    }

    private func lengths(_ index: Int) -> (Int, Int) {
        let place = index * ScriptBatch.entryCount
        return (
            Int(entries.bigEndian(at: place + 8, as: UInt32.self)),
            Int(entries.bigEndian(at: place + 12, as: UInt32.self))
        )
    }
}

/// Appends one batch to a writer, item by item.
///
/// - The writer receives nothing else between `init` and `finish`.
package struct ScriptBatchEncoder {
    private let output: ByteWriter
    private let start: Int
    private let textStart: Int
    private let entries = ByteWriter(capacity: 128 * ScriptBatch.entryCount)

    /// The appended items.
    package private(set) var count = 0

    /// Begins a frame; `functions` has 1 to `functionsMax` elements without repetitions.
    package init(
        _ purpose: ScriptBatch.Purpose,
        functions: [UInt32],
        batch: UInt32,
        to output: ByteWriter
    ) {
        precondition(
            1...ScriptLimits.functionsMax ~= functions.count,
            "the number of functions of a batch is bounded"
        )
        self.output = output
        start = ScriptFrame.begin(purpose.kind, batch: batch, in: output)
        output.append(bigEndian: UInt16(functions.count))
        for function in functions { output.append(bigEndian: function) }
        output.append(bigEndian: UInt32(0))
        textStart = output.count
    }

    /// Bytes of the frame if it were finished now.
    package var byteCount: Int { output.count - start + 1 + entries.count }

    /// Whether an item with texts of this many bytes still fits into the frame.
    package func hasRoom(for textBytes: Int) -> Bool {
        count < ScriptLimits.itemsMax
            && byteCount + textBytes + 3 + ScriptBatch.entryCount <= ScriptLimits.requestBytesMax
    }

    /// Appends an item for which there is room; both texts are JSON.
    package mutating func append(stamp: UInt64, first: ByteView, second: ByteView) {
        precondition(hasRoom(for: first.count + second.count), "an item must fit into its frame")
        output.append(UInt8(ascii: count == 0 ? "[" : ","))
        output.append(first)
        output.append(UInt8(ascii: ","))
        output.append(second)
        entries.append(bigEndian: stamp)
        entries.append(bigEndian: UInt32(first.count))
        entries.append(bigEndian: UInt32(second.count))
        count += 1
    }

    /// Completes the frame, which has at least one item.
    package func finish() {
        precondition(count > 0, "a batch has at least one item")
        output.append(UInt8(ascii: "]"))
        output.replace(at: textStart - 4, bigEndian: UInt32(output.count - textStart))
        output.append(entries.view)
        ScriptFrame.end(start, in: output)
    }
}
