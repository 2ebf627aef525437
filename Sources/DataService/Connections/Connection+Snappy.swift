internal import Bytes
internal import Vocabulary
internal import Wire

/// Values that clients compress with snappy, and values that are compressed for them.
///
/// Nothing is stored compressed: a request's value is inflated before its command is executed, so
/// that no command has to distinguish the two forms.
extension Connection {
    /// Executes a request with a datatype that is rare: compressed, with attributes, or unknown.
    @inline(never)
    func executeTyped(_ request: CommandContext, _ completion: Completion?) -> Execution {
        let datatype = request.frame.datatype
        var agreed = Datatype.json
        if features.contains(.snappy) { agreed.insert(.snappy) }
        if features.contains(.xattr) { agreed.insert(.xattr) }
        guard datatype.isSubset(of: agreed) else {
            return refuse(request, .invalid, "The datatype was not agreed on.")
        }
        return datatype.contains(.snappy)
            ? inflate(request, completion) : dispatch(request, completion)
    }

    /// Executes a request whose value is compressed, as the client agreed.
    ///
    /// The command gets a frame with the inflated value, in a buffer of the lane. If the request is
    /// parked, the inflated frame is; else the compressed one stays in the input, and is inflated
    /// again for the next attempt.
    ///
    /// - The stated length is read and bounded before memory is claimed. A lane inflates one value
    ///   at a time and keeps at most 1 MiB, so connections hold no inflated values.
    /// - This is done on the reactor: 1 MiB takes 0.6 ms and the largest value 20 ms, about as long
    ///   as checking it for JSON and copying it takes also if it comes uncompressed.
    private func inflate(_ request: CommandContext, _ completion: Completion?) -> Execution {
        let frame = request.frame
        let invalid = "The value is not compressed with snappy."
        guard let count = Snappy.rawCount(of: frame.value) else {
            return refuse(request, .invalid, invalid)
        }
        let limit = valueBytesMax(of: frame)
        guard count <= limit else { return refuse(request, .tooBig, "A value has at most 20 MiB.") }
        let inflated = context.inflated
        defer { inflated.removeAll(keepingAtMost: 1 << 20) }
        guard InflatedFrame.append(frame, valueCount: count, to: inflated) else {
            return refuse(request, .invalid, invalid)
        }
        let decoder = FrameDecoder(valueBytesMax: limit)
        guard case .frame(let whole) = decoder.next(in: inflated.view) else {
            preconditionFailure("an inflated frame is whole and within the limits")
        }
        return dispatch(
            CommandContext(
                frame: whole,
                hash: request.hash,
                command: request.command,
                framing: request.framing
            ),
            completion
        )
    }

    /// The bound of an inflated value; one with attributes has room for the system's beside it.
    private func valueBytesMax(of frame: Frame) -> Int {
        if frame.opcode == .subdocMultiMutation { return Limits.attributedRequestBytesMax }
        return frame.datatype.contains(.xattr) ? Limits.storedValueBytesMax : Limits.valueBytesMax
    }

    /// Compresses the document in the last answer, if that is worth it.
    ///
    /// Called after the vBucket's lock was released. Other values stay plain: clients do not inflate
    /// the map of NOT_MY_VBUCKET.
    ///
    /// - Parameter start: Where the answer begins in the output.
    func compressAnswer(at start: Int) {
        let answer = FrameHeader(output.view.dropFirst(start))
        guard answer.statusNumber == Status.success.rawValue else { return }
        CompressedFrame.compress(lastFrameOf: output, at: start, by: context.scratch)
    }
}
