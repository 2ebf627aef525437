/// Where Divan differs from the record of a script, and why that is safe.
enum KnownDifference {
    /// In Divan a configuration is in force once it is in the log (thesis 4.1), in etcd once its
    /// entry is applied. From that entry on Divan needs the new majorities and etcd the old ones,
    /// so one of them commits earlier. Both are safe: a decision has a majority of the newest
    /// configuration that the deciding node knows, and successive configurations always overlap.
    case inForceAtOnce
    /// In Divan a leader that a change removes leads until the remaining voters have committed the
    /// change, and then steps down (thesis 4.2.2). In etcd it stays leader, or steps down when the
    /// change is applied, by when the old majority may have committed further entries. The next
    /// leader commits what Divan leaves uncommitted: a majority has it in the log.
    case removedLeaderStepsDown
    /// In Divan a leader refuses changes until an entry of its term is committed (the fault in
    /// single-server changes that Ongaro published after the thesis). The driver has to propose the
    /// change again, so it happens one step later.
    case changesAfterItsFirstCommit
    /// In the script one committed entry is applied at a time; Divan returns all there are.
    case appliesAllAtOnce

    /// By script; the key is the difference as a failing test prints it.
    static let all: [String: [String: KnownDifference]] = [
        "confchange_disable_validation": [
            "44: 1 configuration: voters=(1), Divan voters=(1)&&(1) learners=(2 3)":
                .appliesAllAtOnce
        ],
        "confchange_v1_remove_leader": [
            "85: 1 commit: 5, Divan 3": .inForceAtOnce,
            "85: 1 configuration: voters=(2 3), Divan voters=(1 2 3)": .inForceAtOnce,
            "110: 1 voter: (Non-Voter), Divan (Voter)": .inForceAtOnce,
            "117: 2 commit: 5, Divan 3": .inForceAtOnce,
            "117: 2 configuration: voters=(2 3), Divan voters=(1 2 3)": .inForceAtOnce,
            "146: 1 commit: 6, Divan 4": .removedLeaderStepsDown,
            "146: 2 commit: 6, Divan 4": .removedLeaderStepsDown,
            "146: 3 commit: 6, Divan 4": .removedLeaderStepsDown,
            "246: 1 role now: StateLeader, Divan StateFollower": .removedLeaderStepsDown,
            "246: 1 leader now: 1, Divan 0": .removedLeaderStepsDown,
        ],
        "confchange_v1_remove_leader_stepdown": [
            "84: 1 commit: 5, Divan 3": .inForceAtOnce,
            "84: 1 role: StateFollower, Divan StateLeader": .inForceAtOnce,
            "84: 1 leader: 0, Divan 1": .inForceAtOnce,
            "84: 1 configuration: voters=(2 3), Divan voters=(1 2 3)": .inForceAtOnce,
            "113: 1 role now: StateFollower, Divan StateLeader": .inForceAtOnce,
            "113: 1 voter: (Non-Voter), Divan (Voter)": .inForceAtOnce,
            "113: 1 leader now: 0, Divan 1": .inForceAtOnce,
            "120: 2 commit: 5, Divan 3": .inForceAtOnce,
            "120: 2 configuration: voters=(2 3), Divan voters=(1 2 3)": .inForceAtOnce,
            "149: 1 commit: 5, Divan 4": .removedLeaderStepsDown,
            "149: 2 commit: 5, Divan 4": .removedLeaderStepsDown,
            "149: 3 commit: 5, Divan 4": .removedLeaderStepsDown,
        ],
        "confchange_v2_add_double_auto": [
            "54: 1 commit: 4, Divan 2": .changesAfterItsFirstCommit,
            "54: 1 configuration: voters=(1 2 3)&&(1) autoleave, Divan voters=(1)":
                .changesAfterItsFirstCommit,
            "254: 1 commit: 6, Divan 9": .inForceAtOnce,
            "254: 1 configuration: voters=(1)&&(1 2 3) autoleave, Divan voters=(1)":
                .inForceAtOnce,
            "288: 2 commit: 6, Divan 9": .inForceAtOnce,
            "288: 2 configuration: voters=(1)&&(1 2 3) autoleave, Divan voters=(1)":
                .inForceAtOnce,
            "288: 3 commit: 6, Divan 9": .inForceAtOnce,
            "288: 3 configuration: voters=(1)&&(1 2 3) autoleave, Divan voters=(1)":
                .inForceAtOnce,
        ],
    ]

    /// The scripts whose end differs from the record, and the values that differ.
    ///
    /// Term and configuration of every member agree even there.
    static let atEnd: [String: Set<String>] = [
        "confchange_v1_remove_leader": ["commit", "role now", "leader now"],
        "confchange_v1_remove_leader_stepdown": ["commit"],
    ]
}
