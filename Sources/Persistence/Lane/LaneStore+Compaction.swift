struct CompactionProgress {
    /// Which part of the lane's vBuckets the next step looks at.
    var group = 0
}
