"""Why a training failed, from the end of its log and what is known of its exit. Pure, and silent where unsure."""
